"""How a process of the background says that it cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lily.apps import dispatcher, gateway


@pytest.mark.parametrize("main", [gateway.main, dispatcher.main])
def test_a_process_that_misses_a_setting_names_it_and_ends_with_1(
    main: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(main)
    monkeypatch.setattr("sys.argv", ["lily", "--data-dir", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "LILY_DATABASE_URL" in "".join(capsys.readouterr())
