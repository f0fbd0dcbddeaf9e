"""The headers of a batch of records, as columns by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Headers:
    """The headers of a batch of records, by name."""

    def __init__(self, headers: pa.ListArray) -> None:
        names, self._values = headers.flatten().flatten()
        encoded = names.dictionary_encode()
        self._codes = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
        self._names = encoded.indices.to_numpy()
        lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
        self._records = np.repeat(np.arange(len(headers)), lengths)
        self._count = len(headers)

    def texts(self, name: str) -> pa.Array:
        """The last value of that name in every record, as text; NULL when it is absent.

        Bytes that are no UTF-8 become text with a NUL in it, which no rule lets through.
        """
        if name not in self._codes:
            return pa.nulls(self._count, pa.string())
        found = np.flatnonzero(self._names == self._codes[name])
        places = np.full(self._count, -1)
        places[self._records[found]] = found  # of several, the last stays
        values = pc.take(self._values, pa.array(places, mask=places < 0))
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([_text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode(errors="replace") + "\0"
