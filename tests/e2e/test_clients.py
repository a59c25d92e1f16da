"""Requests as clients really send them (facts 00b): recorded ones in `habits/*.http`, hand-made ones in `habits/made.py`.

Each is sent (a) to the real llama.cpp and through AutoHedge, which must not refuse what the engine serves; (b) through
AutoHedge to a server that keeps what arrives: the same body to the byte, the same end-to-end headers, nothing added.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.e2e.conftest import House
from tests.e2e.habits.engines import Keeper, Kept, keeper, sample
from tests.e2e.habits.exchange import Heard, exchange, post
from tests.e2e.habits.made import AZURES, CHAT, DIALECTS, HELLO, PACKED, WIRES
from tests.support.processes import Child, edge, ending

pytestmark = pytest.mark.real
FOLDER = Path(__file__).parent / "habits"
RECORDED = {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*.http"))}
MADE = DIALECTS | AZURES | WIRES
ALL = RECORDED | MADE
POSTS = {name: request for name, request in ALL.items() if request.startswith(b"POST")}
OVER = {b"connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade", b"trailer"}  # end at each hop
OWN = {b"host", b"content-length", b"expect", b"api-key"}  # told anew, or taken as the bearer


def test_there_are_enough() -> None:
    """80 client versions and habits; the recordings come from at least 30 versions of real clients."""
    assert len({name.rpartition("-")[0] for name in RECORDED}) >= 30
    assert len(ALL) >= 150


def as_the_engine_knows_it(request: bytes) -> bytes:
    """The same request under the path that a bare engine serves: Azure's and Groq's live at the edge only."""
    line, rest = request.split(b"\r\n", 1)
    for model in (b"tiny", b"vectors"):
        line = line.replace(b"/openai/deployments/" + model + b"/", b"/v1/")
    line = line.replace(b"/openai/v1/", b"/v1/").replace(b"completions/ ", b"completions ").replace(b"/?v=1", b"?v=1")
    line = line.replace(b" http://autohedge.test", b" ")
    return line + b"\r\n" + rest


@pytest.mark.parametrize("name", ALL)
def test_what_the_engine_serves_is_served(house: House, name: str) -> None:
    """(a) None is refused that the engine behind would serve; a refusal of the engine stays one."""
    request = ALL[name]
    engine = house.vectors if b"vectors" in request else house.one
    direct = exchange(engine.port, as_the_engine_knows_it(request))
    through = exchange(house.edge.port, request)
    if b" /v1/models" in request or b"/openai/v1/models" in request:
        assert through.status == 200  # answered by the edge itself, from what it learned
        return
    assert through.status == direct.status, through.body
    if direct.status < 300:
        assert not through.ours
        assert through.header("content-type") == direct.header("content-type")


@dataclass(slots=True)
class Kitchen:
    keeper: Keeper
    front: Child


CONFIG = """
server: {{listen: "127.0.0.1:0", access_log: info}}
probe: {{enabled: false}}
upstream_registry:
  kept:
    host: "{url}"
    provider: openai-compatible
    models: [tiny, vectors]
    aliases: {{public/name: tiny}}
"""


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kitchen]:
    with keeper() as kept:
        front = edge(CONFIG.format(url=kept.url), Path(tmp_path_factory.mktemp("kept")))
        with ending(front):
            yield Kitchen(kept, front)


def through(kitchen: Kitchen, request: bytes, mark: str) -> tuple[Heard, Kept]:
    """Send a request with a mark among its headers; the answer, and what arrived with that mark."""
    line, rest = request.split(b"\r\n", 1)
    heard = exchange(kitchen.front.port, line + b"\r\nX-Habit: " + mark.encode() + b"\r\n" + rest)
    found = [kept for kept in kitchen.keeper.kept if dict(kept.headers).get(b"x-habit") == mark.encode()]
    assert len(found) == 1, (heard.status, heard.body)
    return heard, found[0]


def meant(request: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The end-to-end headers of a request as it was sent, and its body without the chunks."""
    head, _, body = request.partition(b"\r\n\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (x.partition(b":") for x in head.split(b"\r\n")[1:])]
    if (b"transfer-encoding", b"chunked") in headers:
        rest, body = body, b""
        while size := int((parted := rest.partition(b"\r\n"))[0].partition(b";")[0], 16):
            body, rest = body + parted[2][:size], parted[2][size + 2 :]
    over = {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")}
    kept = [pair for pair in headers if pair[0] not in OVER | OWN | over]
    key = dict(headers).get(b"api-key")
    if key is not None and b"authorization" not in dict(headers):
        kept.append((b"authorization", b"Bearer " + key))
    return kept, body


@pytest.mark.parametrize("name", POSTS)
def test_nothing_is_changed_on_the_way(kitchen: Kitchen, name: str) -> None:
    """(b) B59, B61, B62: body to the byte, end-to-end headers in their order with repeats; Host, length and the mark of CDN-Loop ours."""
    request = POSTS[name]
    heard, kept = through(kitchen, request, f"{list(POSTS).index(name)}")
    headers, body = meant(request)
    assert heard.status == 200
    if b"/deployments/" in request.split(b"\r\n", 1)[0]:
        body = with_deployment(body)
    assert kept.body == body
    *arrived, (loop, mark) = [pair for pair in kept.headers if pair[0] not in {b"host", b"content-length", b"x-habit"}]
    assert arrived == headers
    assert (loop, mark.startswith(b"autohedge-")) == (b"cdn-loop", True)
    assert [value for key, value in kept.headers if key == b"host"] == [kitchen.keeper.url[7:].encode()]
    assert [value for key, value in kept.headers if key == b"content-length"] == [b"%d" % len(kept.body)]
    assert kept.line.startswith(b"POST /v1/")
    assert b"api-version=preview" not in kept.line
    assert kitchen.keeper.rest == b""


def with_deployment(body: bytes) -> bytes:
    """The deployment in the path is the model; a body that names none, or another one, is told so and nothing else."""
    name = b'"vectors"' if b'"input"' in body else b'"tiny"'
    for stands in (b'"model":null', b'"model": null', b'"model":"gpt-4o"'):
        if stands in body:
            return body.replace(stands, stands[:8] + stands[8:].replace(b"null", name).replace(b'"gpt-4o"', name))
    return body if b'"model"' in body else b'{"model":' + name + b"," + body[1:]


def test_a_query_arrives_as_it_came(kitchen: Kitchen) -> None:
    _, kept = through(kitchen, WIRES["a query"], "query")
    assert kept.line == b"POST /v1/chat/completions?v=1&x=%20a+b HTTP/1.1"


MODELS: dict[str, bytes] = {
    "plain": b'{"model":"public/name","messages":[{"role":"user","content":"a"}]}',
    "slash escaped": b'{"model":"public\\/name","messages":[{"role":"user","content":"a"}]}',
    "spread out": b'{ "messages" : [ {"role":"user","content":"\\"model\\":\\"public/name\\""} ] ,\r\n\t"model" :\t"public/name" } \n',
    "twice": b'{"model":"other","messages":[{"role":"user","content":"a"}],"model":"public/name","x":{"model":"public/name"}}',
    "escaped key": b'{"\\u006dodel":"public/name","messages":[{"role":"user","content":"\\u4f60 \\/ 1e0"}],"temperature":1e0}',
    "mark": b'\xef\xbb\xbf{"model":"public/name","messages":[{"role":"user","content":"a"}]}',
}


@pytest.mark.parametrize("name", MODELS)
def test_only_the_name_changes(kitchen: Kitchen, name: str) -> None:
    """An alias becomes the engine's name as a span of bytes; all around it stays, nested ones and texts too."""
    body = MODELS[name]
    _, kept = through(kitchen, post(CHAT, body), f"model {name}")
    spelled = b'"public\\/name"' if b"\\/name" in body else b'"public/name"'
    # the one that counts is the last at the top: before the nested one in "twice", the last in all others
    at = body.index(spelled) if name == "twice" else body.rindex(spelled)
    assert kept.body == body[:at] + b'"tiny"' + body[at + len(spelled) :]


@pytest.mark.parametrize("name", PACKED)
def test_a_packed_body_gets_the_engine_s_own_answer(house: House, name: str) -> None:
    """Section 00: llama.cpp reads no Content-Encoding; the bytes go to it as they came and its own answer comes back."""
    direct, heard = exchange(house.one.port, PACKED[name]), exchange(house.edge.port, PACKED[name])
    assert (heard.status, heard.body) == (direct.status, direct.body)
    assert not heard.ours


@pytest.mark.parametrize("name", PACKED)
def test_a_packed_body_arrives_packed(kitchen: Kitchen, name: str) -> None:
    heard, kept = through(kitchen, PACKED[name], f"packed {name}")
    assert heard.status == 200
    assert kept.body == PACKED[name].partition(b"\r\n\r\n")[2]
    assert dict(kept.headers)[b"content-encoding"] == name.encode()


def test_the_expectation_is_met_before_the_body_is_sent(house: House) -> None:
    """Expect: 100-continue: the edge asks for the body; curl would otherwise wait a second for it."""
    head, _, body = post(CHAT, HELLO, "Expect: 100-continue").partition(b"\r\n\r\n")
    with socket.create_connection(("127.0.0.1", house.edge.port), 10) as connection:
        connection.sendall(head + b"\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert connection.recv(15) == b"HTTP/1.1 200 OK"


def test_multipart_is_refused(house: House) -> None:
    """No engine's JSON doors read forms; the edge says so itself."""
    heard = exchange(house.edge.port, post(CHAT, b"--a--", mime="multipart/form-data; boundary=a"))
    assert (heard.status, heard.ours) == (415, True)
    assert "multipart" in json.loads(heard.body)["error"]["message"]


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: autohedge.test\r\n\r\n".encode()


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1/models/", "/v1/models?v=1", "/v1/models/?v=1", "/openai/v1/models"]
)
def test_models_as_clients_ask_for_them(house: House, path: str) -> None:
    heard = exchange(house.edge.port, get(path))
    assert heard.status == 200
    listed = json.loads(heard.body)
    assert "tiny" in {model["id"] for model in listed["data"]}
    assert listed["models"]
    bare = exchange(house.edge.port, get(path, "HEAD"))
    assert (bare.status, bare.body) == (200, b"")
    assert bare.header("content-length") == heard.header("content-length")


@pytest.mark.parametrize(
    "path", ["/v1/models/public%2Fname", "/v1/models/public/name", "/openai/v1/models/public%2Fname"]
)
def test_a_name_with_a_slash(kitchen: Kitchen, path: str) -> None:
    """huggingface-style names come encoded or bare."""
    heard = exchange(kitchen.front.port, get(path))
    assert heard.status == 200
    assert json.loads(heard.body)["id"] == "public/name"
    missing = exchange(kitchen.front.port, get("/v1/models/" + quote("public/nome", safe="")))
    assert (missing.status, json.loads(missing.body)["error"]["code"]) == (404, "model_not_found")


def test_a_deployment_with_a_slash(kitchen: Kitchen) -> None:
    """An Azure client whose deployment is org/name."""
    body = b'{"messages":[{"role":"user","content":"a"}]}'
    heard, _ = through(kitchen, post("/openai/deployments/public%2Fname/chat/completions?api-version=1", body), "org")
    assert heard.status == 200
    assert heard.header("x-autohedge-model") == "tiny"


def test_a_name_in_the_body_is_put_in_where_the_engine_needs_one(tmp_path: Path) -> None:
    """SGLang refuses a null model; the deployment in the path becomes the body's model, whatever stood there."""
    engine = sample("--kind", "sglang", "--model", "tiny", "--fault", "echo")
    with ending(engine):
        front = edge(f'server: {{listen: "127.0.0.1:0"}}\nupstream_registry: {{a: {{host: "{engine.url}"}}}}', tmp_path)
        with ending(front):
            for name, expected in (
                ("model null", b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}'),
                ("no model", b'{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":2}'),
            ):
                heard = exchange(front.port, AZURES[name])
                assert json.loads(heard.body)["echo"]["body"].encode() == expected


def test_no_header_s_value_is_logged(house: House, kitchen: Kitchen) -> None:
    """Second secrets and local paths stay out of the log, at debug too."""
    for port in (house.edge.port, kitchen.front.port):
        exchange(port, WIRES["second secrets"])
        exchange(port, WIRES["an agent's local path"])
        exchange(port, AZURES["model null"].replace(b"api-key: k", b"api-key: azure-secret"))
    for text in (house.edge.output(), kitchen.front.output()):
        assert "pk-1" not in text
        assert "azure-secret" not in text
        assert "Users" not in text
        assert "Traceback" not in text
