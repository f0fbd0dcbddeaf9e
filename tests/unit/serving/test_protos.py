"""The generated code is that of the published contract."""

from __future__ import annotations

from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).parents[3]
PROTOS = ROOT / "contracts" / "proto"
GENERATED = ROOT / "src" / "lily" / "serving" / "grpc"


def generate(folder: Path) -> None:
    arguments = ["protoc", f"-I{PROTOS}", f"--python_out={folder}", *map(str, PROTOS.glob("*.proto"))]
    assert protoc.main(arguments) == 0


def test_the_generated_code_is_up_to_date(tmp_path: Path) -> None:
    generate(tmp_path)
    for file in tmp_path.glob("*_pb2.py"):
        committed = (GENERATED / file.name).read_text()
        assert file.read_text() == committed, f"refresh it: python {Path(__file__).relative_to(ROOT)}"


if __name__ == "__main__":
    generate(GENERATED)
