"""Search by meaning with static embeddings: a text is the mean of its tokens' vectors.

No model runs and nothing is downloaded. The weights are inside the wheel of `wordllama` (256 numbers for each of 32,000
tokens, 16 MB). We read its files ourselves, because its loader looks for them on the network.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ebbtide.core.errors import BadConfig

if TYPE_CHECKING:
    import numpy
    import tokenizers

_WEIGHTS = ("weights", "l2_supercat_256.safetensors")
_TOKENIZER = ("tokenizers", "l2_supercat_tokenizer_config.json")
_MIN_SIMILARITY = 0.25
"""Texts below this cosine similarity are unrelated: `restart` and `reboot` have 0.5, `restart` and `banana` 0.1."""


class StaticEmbeddings:
    """The `Embeddings` that the search index uses. Raises BadConfig if the packages of the extra are missing."""

    model = "wordllama-l2-256"

    def __init__(self) -> None:
        spec = find_spec("wordllama")
        missing = [name for name in ("numpy", "tokenizers") if find_spec(name) is None]
        if spec is None or not spec.origin or missing:
            raise BadConfig("search by meaning needs the extra 'embeddings': pip install 'ebbtide[embeddings]'")
        self._root = os.path.dirname(spec.origin)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        import numpy  # noqa: PLC0415

        vectors = []
        for encoded in self._tokenizer.encode_batch(
            [_without_surrogates(text) for text in texts], add_special_tokens=False
        ):
            vector = self._weights[encoded.ids or [0]].mean(0)
            vectors.append((vector / (numpy.linalg.norm(vector) + 1e-9)).astype(numpy.float16).tobytes())
        return vectors

    def similarities(self, query: str, vectors: Sequence[bytes]) -> list[float]:
        import numpy  # noqa: PLC0415

        (query_vector,) = self.embed([query])
        table = numpy.frombuffer(b"".join(vectors), dtype=numpy.float16).reshape(len(vectors), -1)
        scores = table.astype(numpy.float32) @ numpy.frombuffer(query_vector, dtype=numpy.float16).astype(numpy.float32)
        return [float(score) - _MIN_SIMILARITY for score in scores]

    @cached_property
    def _weights(self) -> numpy.ndarray[tuple[int, int], numpy.dtype[numpy.float32]]:
        """Read the safetensors file: the header's length, a JSON header, then the numbers."""
        import numpy  # noqa: PLC0415

        with open(os.path.join(self._root, *_WEIGHTS), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            (tensor,) = [value for name, value in header.items() if name != "__metadata__"]
            dtype = {"F16": numpy.float16, "F32": numpy.float32}[tensor["dtype"]]
            rows, columns = tensor["shape"]
            return numpy.frombuffer(file.read(), dtype=dtype).reshape(rows, columns).astype(numpy.float32)

    @cached_property
    def _tokenizer(self) -> tokenizers.Tokenizer:
        from tokenizers import Tokenizer  # noqa: PLC0415

        tokenizer = Tokenizer.from_file(os.path.join(self._root, *_TOKENIZER))
        tokenizer.no_padding()
        return tokenizer


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
