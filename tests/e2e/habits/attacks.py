"""Requests that two readers could read in two ways (RFC 9112 11.2), each with a second request hidden in it.

The hidden one asks for INNER; a backend that ever sees that path was reached by a smuggled request.
"""

from __future__ import annotations

from tests.e2e.habits.made import CHAT, HELLO

INNER = b"/v1/completions?smuggled=1"
HIDDEN = b"POST " + INNER + b" HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"
HEAD = b"POST " + CHAT.encode() + b" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
SIZE = b"%d" % len(HELLO)
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(HELLO), HELLO)
TE = b"Transfer-Encoding: chunked\r\n"


def both(*lines: bytes) -> bytes:
    """A head whose lines disagree about the end of the body; the hidden request stands where they differ."""
    return HEAD + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + CHUNKED + HIDDEN


def coded(spelling: bytes) -> bytes:
    """A transfer coding that some readers take for chunked and others do not see."""
    return HEAD + spelling + b"\r\nContent-Length: " + SIZE + b"\r\n\r\n" + HELLO + HIDDEN


def alone(spelling: bytes) -> bytes:
    return HEAD + spelling + b"\r\n\r\n" + CHUNKED + HIDDEN


def sized(line: bytes) -> bytes:
    """A chunked body whose first size line is `line`."""
    return HEAD + TE + b"\r\n" + line + b"\r\n" + HELLO + b"\r\n0\r\n\r\n" + HIDDEN


LONG = b"%x" % len(HELLO)

FRAMING: dict[str, bytes] = {
    "CL and TE": both(b"Content-Length: " + SIZE, b"Transfer-Encoding: chunked"),
    "TE and CL": both(b"Transfer-Encoding: chunked", b"Content-Length: 4"),
    "TE and CL 0": both(b"Transfer-Encoding: chunked", b"Content-Length: 0"),
    "CL twice, different": HEAD + b"Content-Length: " + SIZE + b"\r\nContent-Length: 5\r\n\r\n" + HELLO + HIDDEN,
    "CL twice, equal": HEAD + (b"Content-Length: " + SIZE + b"\r\n") * 2 + b"\r\n" + HELLO + HIDDEN,
    "CL list": HEAD + b"Content-Length: " + SIZE + b", " + SIZE + b"\r\n\r\n" + HELLO + HIDDEN,
    "CL plus": HEAD + b"Content-Length: +" + SIZE + b"\r\n\r\n" + HELLO + HIDDEN,
    "CL minus": HEAD + b"Content-Length: -1\r\n\r\n" + HELLO + HIDDEN,
    "CL hex": HEAD + b"Content-Length: 0x4e\r\n\r\n" + HELLO + HIDDEN,
    "CL with a point": HEAD + b"Content-Length: " + SIZE + b".0\r\n\r\n" + HELLO + HIDDEN,
    "CL with a space inside": HEAD + b"Content-Length: 7 8\r\n\r\n" + HELLO + HIDDEN,
    "CL with an underscore": HEAD + b"Content-Length: 7_8\r\n\r\n" + HELLO + HIDDEN,
    "CL empty": HEAD + b"Content-Length:\r\n\r\n" + HELLO + HIDDEN,
    "CL of 30 digits": HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n" + HELLO + HIDDEN,
    "CL in Unicode digits": HEAD + "Content-Length: ７８".encode() + b"\r\n\r\n" + HELLO + HIDDEN,
    "CL with a space before the colon": HEAD + b"Content-Length : " + SIZE + b"\r\n\r\n" + HELLO + HIDDEN,
    "TE xchunked": coded(b"Transfer-Encoding: xchunked"),
    "TE identity": coded(b"Transfer-Encoding: identity"),
    "TE chunked, identity": alone(b"Transfer-Encoding: chunked, identity"),
    "TE gzip, chunked": alone(b"Transfer-Encoding: gzip, chunked"),
    "TE chunked, chunked": alone(b"Transfer-Encoding: chunked, chunked"),
    "TE twice": alone(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    "TE twice, one odd": alone(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x"),
    "TE quoted": alone(b'Transfer-Encoding: "chunked"'),
    "TE with a parameter": alone(b"Transfer-Encoding: chunked;q=1"),
    "TE with a space before the colon": coded(b"Transfer-Encoding : chunked"),
    "TE with a tab before the colon": coded(b"Transfer-Encoding\t: chunked"),
    "TE behind a vertical tab": coded(b"Transfer-Encoding: \x0bchunked"),
    "TE behind a NUL": coded(b"Transfer-Encoding: \x00chunked"),
    "TE in a folded line": coded(b"Transfer-Encoding:\r\n chunked"),
    "TE folded behind another": coded(b"X-A: b\r\n Transfer-Encoding: chunked"),
    "TE behind a bare LF": coded(b"X-A: b\nTransfer-Encoding: chunked"),
    "TE behind a bare CR": coded(b"X-A: b\rTransfer-Encoding: chunked"),
    "TE ended by a bare LF": coded(b"Transfer-Encoding: chunked\n"),
    "TE before the name": coded(b" Transfer-Encoding: chunked"),
    "TE in HTTP/1.0": alone(b"Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "size negative": sized(b"-1"),
    "size plus": sized(b"+" + LONG),
    "size 0x": sized(b"0x" + LONG),
    "size behind a space": sized(b" " + LONG),
    "size with a space behind": sized(LONG + b" "),
    "size with an underscore": sized(b"4_e"),
    "size empty": sized(b""),
    "size no number": sized(b"zz"),
    "size of 17 digits": sized(b"f" * 17),
    "size overflows": sized(b"1" + b"0" * 16),
    "size ended by LF": HEAD + TE + b"\r\n" + LONG + b"\n" + HELLO + b"\r\n0\r\n\r\n" + HIDDEN,
    "size ended by CR": HEAD + TE + b"\r\n" + LONG + b"\r" + HELLO + b"\r\n0\r\n\r\n" + HIDDEN,
    "LF in an extension": sized(LONG + b";a\nb"),
    "chunk ended by LF": HEAD + TE + b"\r\n" + LONG + b"\r\n" + HELLO + b"\n0\r\n\r\n" + HIDDEN,
    "chunk without an end": HEAD + TE + b"\r\n" + LONG + b"\r\n" + HELLO + b"0\r\n\r\n" + HIDDEN,
    "chunk longer than its size": HEAD + TE + b"\r\n5\r\n" + HELLO + b"\r\n0\r\n\r\n" + HIDDEN,
    "last chunk ended by LF": HEAD + TE + b"\r\n" + LONG + b"\r\n" + HELLO + b"\r\n0\n\n" + HIDDEN,
    "head ended by LF": b"POST /v1/chat/completions HTTP/1.1\nHost: a\nContent-Length: " + SIZE + b"\n\n" + HELLO + HIDDEN,
    "head ended by CRLF LF": HEAD + b"Content-Length: " + SIZE + b"\r\n\n" + HELLO + HIDDEN,
}  # fmt: skip


def lined(line: bytes) -> bytes:
    return HEAD + line + b"\r\nContent-Length: " + SIZE + b"\r\n\r\n" + HELLO


HEADS: dict[str, bytes] = {
    "NUL in a value": lined(b"X-A: b\x00c"),
    "NUL in a name": lined(b"X\x00A: b"),
    "control byte in a value": lined(b"X-A: b\x01c"),
    "DEL in a value": lined(b"X-A: b\x7fc"),
    "CR in a value": lined(b"X-A: b\rc"),
    "LF in a value": lined(b"X-A: b\nX-Evil: 1"),
    "folded line": lined(b"X-A: b\r\n c"),
    "folded first line": HEAD.replace(b"Host: a\r\n", b" x: y\r\nHost: a\r\n") + b"Content-Length: 0\r\n\r\n",
    "space in a name": lined(b"X A: b"),
    "no colon": lined(b"X-A"),
    "empty name": lined(b": b"),
    "name with a slash": lined(b"X/A: b"),
    "name beyond ASCII": lined("X-é: b".encode()),
    "no Host": lined(b"X-A: b").replace(b"Host: a\r\n", b""),
    "two Hosts": lined(b"Host: b"),
    "Host with a path": lined(b"X-A: b").replace(b"Host: a", b"Host: a/b"),
    "Host with a user": lined(b"X-A: b").replace(b"Host: a", b"Host: u@a"),
    "Host with a space": lined(b"X-A: b").replace(b"Host: a", b"Host: a b"),
    "head over 64 KiB": lined(b"X-A: " + b"b" * 70_000),
    "head over 64 KiB in many": lined(b"\r\n".join(b"X-%d: %b" % (i, b"b" * 1000) for i in range(80))),
    "201 headers": lined(b"\r\n".join(b"X-%d: b" % i for i in range(201))),
    "target over 16 KiB": HEAD.replace(b" HTTP/1.1", b"?" + b"a" * 17_000 + b" HTTP/1.1") + b"Content-Length: 0\r\n\r\n",
    "HTTP/2.0": lined(b"X-A: b").replace(b"HTTP/1.1", b"HTTP/2.0"),
    "HTTP/1.2": lined(b"X-A: b").replace(b"HTTP/1.1", b"HTTP/1.2"),
    "HTTP/0.9": b"GET /v1/models\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "lower-case http": lined(b"X-A: b").replace(b"HTTP/1.1", b"http/1.1"),
    "tab in the line": lined(b"X-A: b").replace(b" HTTP/1.1", b"\tHTTP/1.1"),
    "CR in the target": lined(b"X-A: b").replace(b" HTTP/1.1", b"\rX HTTP/1.1"),
    "NUL in the target": lined(b"X-A: b").replace(b" HTTP/1.1", b"\x00 HTTP/1.1"),
    "fragment": lined(b"X-A: b").replace(b" HTTP/1.1", b"#a HTTP/1.1"),
    "space in the query": lined(b"X-A: b").replace(b" HTTP/1.1", b"?a b HTTP/1.1"),
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 100,
    "CONNECT": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown method": b"HAX / HTTP/1.1\r\nHost: a\r\n\r\n",
    "bytes that are nothing": bytes(range(256)) * 4,
}  # fmt: skip

# Neutral ones: whatever comes of them, a backend is asked under the door's own path or not at all.
PATHS: tuple[str, ...] = (
    "/v1/chat/completions ", "//v1/chat/completions", "/v1//chat/completions", "/v1/./chat/completions", "/v1/../v1/chat/completions",
    "/v1/%2e%2e/v1/chat/completions", "/%2e%2e/%2e%2e/etc/passwd", "/v1/chat/completions;a=b", "/v1/chat/completions;/../x",
    "/v1/chat%2fcompletions", "/v1%2fchat/completions", "/v1/chat/completions%2f", "/v1/chat/completions%00",
    "/v1/chat/completions%0d%0aX-Evil:%201", "/v1/chat/completions%23a", "/v1/chat/completions%3fa", "/V1/CHAT/COMPLETIONS",
    "/v1/chat/completions//", "/v1/chat\\completions", "/v1/chat/completions/../../metrics", "/openai/deployments//chat/completions",
    "/openai/deployments/../../metrics", "/openai/deployments/tiny/../../../props", "/openai/deployments/tiny%2f..%2f..%2fprops/chat/completions",
    "/openai/deployments/tiny%0d%0aX-Evil:%201/chat/completions", "/openai/deployments/%00/chat/completions",
    "/openai/deployments/tiny/props", "/openai/deployments/tiny/chat/completions/../../../../props", "/openai/props", "/props", "/slots",
    "/tokenize", "/v1/chat/completions/input_tokens", "http://169.254.169.254/latest/meta-data", "http://a@b/v1/chat/completions",
    "http://127.0.0.1:22/v1/chat/completions", "*", "/v1/chat/completions?smuggle=%0d%0aX-Evil:%201", "/v1/chat/completions?a?b&c=%",
    "/%", "/%zz", "/" + "a/" * 3000, "/v1/models/..%2f..%2fprops",
)  # fmt: skip
