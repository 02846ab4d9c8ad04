"""The two paths by which a gateway has us shorten its requests, over HTTP. What they do is in `compressor.py`."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from ebbtide.core.errors import BadRequest
from ebbtide.fronts.proxy.compressor import Compressor

COMPRESS, RETRIEVE = "/v1/compress", "/v1/retrieve/"
_UPLOAD_SECONDS = 60.0


def is_gateway_path(path: str) -> bool:
    return path == COMPRESS or path.startswith(RETRIEVE)


async def serve_gateway(request: web.Request, path: str, compressor: Compressor) -> web.Response:
    """Answer a request on one of these paths. What a caller got belongs to the key that it sent."""
    credential = request.headers.get("authorization", "")
    if request.method != ("POST" if path == COMPRESS else "GET"):
        return _error(405, f"use POST for {COMPRESS}, and GET for {RETRIEVE}HASH")
    if path == COMPRESS:
        return await _compress(request, credential, compressor)
    hash = path.removeprefix(RETRIEVE).lower()
    text = await asyncio.to_thread(compressor.retrieve, hash, credential)
    if text is None:
        return _error(404, "no text has this hash for this key: it was never given out, or the text was deleted")
    return web.json_response({"hash": hash, "original_content": text})


async def _compress(request: web.Request, credential: str, compressor: Compressor) -> web.Response:
    try:
        async with asyncio.timeout(_UPLOAD_SECONDS):
            body = json.loads(await request.read())
        return web.json_response(await asyncio.to_thread(compressor.compress, body, credential))
    except web.HTTPRequestEntityTooLarge:
        return _error(413, "the body is larger than this proxy takes")
    except (TimeoutError, web.RequestPayloadError):
        return _error(408, "the body did not arrive in time")
    except (ValueError, RecursionError):
        return _error(400, "the body is not JSON")
    except BadRequest as error:
        return _error(400, str(error))


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": f"ebb proxy: {message}"}}, status=status)
