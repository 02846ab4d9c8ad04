"""The scripted provider as three clouds serve it: other paths, other streams, and a signature over the body."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable

from upstream.provider import Reply
from upstream.server import Handler, Upstream

BEDROCK = re.compile(r"/model/([^/]+)/invoke(-with-response-stream)?\Z")
VERTEX = re.compile(r"/projects/p1/locations/r1/publishers/anthropic/models/([^/:]+):(rawPredict|streamRawPredict)\Z")
AZURE = re.compile(r"/openai/deployments/([^/]+)(/chat/completions)\Z|/openai/(v1/)?(responses)\Z")
AWS_KEYS = {"aws_access_key": "AKIDEXAMPLE12345", "aws_secret_key": "a-secret", "aws_region": "us-east-1"}


class BedrockHandler(Handler):
    """Checks that the signature is that of the body it got, and streams Amazon's frames."""

    def do_POST(self) -> None:
        raw, match = self._read() or b"", BEDROCK.match(self.path)
        assert match, self.path
        if not is_signed(self.path, dict(self.headers.items()), raw):
            return self._json(403, {"message": "The request signature we calculated does not match"})
        body = json.loads(raw)
        assert body.pop("anthropic_version")
        body.pop("anthropic_beta", None)
        body = {"model": match[1], **body, **({"stream": True} if match[2] else {})}
        reply = self.server.provider.answer("/v1/messages", {}, json.dumps(body).encode())
        if reply.stream is None:
            return self._json(reply.status, reply.body)
        return self._send_frames(reply)

    def _send_frames(self, reply: Reply) -> None:
        frames = b"".join(frames_of(reply.stream))
        self.send_response(200)
        self.send_header("content-type", "application/vnd.amazon.eventstream")
        self.send_header("content-length", str(len(frames)))
        self.end_headers()
        self.wfile.write(frames)


def frames_of(events: Iterable[bytes]) -> Iterable[bytes]:
    for event in events:
        (data,) = [line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")]
        payload = json.dumps({"bytes": base64.b64encode(data).decode()}).encode()
        names = {":event-type": b"chunk", ":content-type": b"application/json", ":message-type": b"event"}
        headers = b"".join(
            bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2, "big") + value
            for name, value in names.items()
        )
        head = (16 + len(headers) + len(payload)).to_bytes(4, "big") + len(headers).to_bytes(4, "big")
        head += zlib.crc32(head).to_bytes(4, "big")
        message = head + headers + payload
        yield message + zlib.crc32(message).to_bytes(4, "big")


def is_signed(path: str, headers: dict[str, str], raw: bytes) -> bool:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    given = {name.lower(): value for name, value in headers.items()}
    signed, _, signature = given["authorization"].partition("SignedHeaders=")[2].partition(", Signature=")
    request = AWSRequest(
        method="POST",
        url=f"http://{given['host']}{path}",
        data=raw,
        headers={name: given[name] for name in signed.split(";")},
    )
    request.context["timestamp"] = given["x-amz-date"]
    keys = Credentials(AWS_KEYS["aws_access_key"], AWS_KEYS["aws_secret_key"])
    auth = SigV4Auth(keys, "bedrock", AWS_KEYS["aws_region"])
    return auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request) == signature


class VertexHandler(Handler):
    def do_POST(self) -> None:
        raw, match = self._read() or b"", VERTEX.match(self.path)
        assert match, self.path
        assert self.headers["authorization"] == "Bearer a-token"
        body = json.loads(raw)
        assert body.pop("anthropic_version")
        body = {"model": match[1], **body}
        self._send(self.server.provider.answer("/v1/messages", {}, json.dumps(body).encode()))


class AzureHandler(Handler):
    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        match = AZURE.match(path)
        assert match, path
        assert query.startswith("api-version="), query
        assert self.headers["api-key"] == "key-of-a-test"
        route = f"/v1{match[2] or '/responses'}"
        self._send(self.server.provider.answer(route, {}, self._read() or b""))


class BedrockUpstream(Upstream):
    handler = BedrockHandler


class VertexUpstream(Upstream):
    handler = VertexHandler


class AzureUpstream(Upstream):
    handler = AzureHandler
