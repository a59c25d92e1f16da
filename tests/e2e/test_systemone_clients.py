"""Real System One clients, unmodified, through AutoHedge: jevcompat's suite, the typesafe-sdk, system-one, the JavaScript SDK.

Behind it stand jevcompat's own reference mock and a real llama.cpp server with a decision model. The mock reads neither zstd nor
multipart, as the hosted API does; `Hosted` is that mock with both taken off by other people's codecs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from http.server import ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import zstandard
from hypothesis import given, settings
from jevcompat.mock import Handler, MockConfig, read_body
from system_one import APIError, Choice, Noul, Score, SystemOne
from system_one.backends.http import HTTPBackend
from system_one.settings import HTTPConfig
from typesafe_sdk import Image, TypeSafeBadRequestError, TypeSafeClient, TypeSafeUnprocessableEntityError
from typesafe_sdk import Noul as SdkNoul

from tests.payloads.decisions import VALID
from tests.support.processes import Child, decider, edge, ending

pytestmark = pytest.mark.real

WORKERS = """
server: {{listen: "127.0.0.1:0", access_log: debug}}
learning: {{interval: 1s}}
workers: [{{url: "{url}"}}]
"""
NAMED = """
server: {{listen: "127.0.0.1:0"}}
upstream_registry:
  hosted: {{host: "{url}", provider: typesafe, models: [jev-latest]}}
"""
QUESTIONS: dict[str, Any] = {
    "refund": {"type": "noul", "instructions": "Does the customer want money back?"},
    "tone": {"type": "choice", "instructions": "Tone?", "criteria": {"calm": None, "angry": "hostile words"}},
    "urgency": {"type": "score", "instructions": "How urgent?", "criteria": ["can wait", "this week", "today"]},
}
STATE = "I was charged twice for my March invoice, please help. "
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8


class Hosted(Handler):  # type: ignore[misc]
    """jevcompat's mock, reading what the hosted API reads. `kept` holds every body as it came, with its headers."""

    cfg = MockConfig()
    kept: list[tuple[Message, bytes]]

    def do_POST(self) -> None:
        raw = read_body(self)
        self.kept.append((self.headers, raw))
        if self.headers.get("Content-Encoding") == "zstd":
            raw = zstandard.decompress(raw)
        media = self.headers.get("Content-Type", "")
        if media.startswith("multipart/"):
            form = BytesParser().parsebytes(b"Content-Type: " + media.encode() + b"\r\n\r\n" + raw)
            parts = [part for part in form.walk() if part.get_param("name", header="content-disposition") == "request"]
            raw = bytes(parts[0].get_payload(decode=True))
        self.headers.replace_header("Content-Length", str(len(raw)))
        self.rfile = BytesIO(raw)
        super().do_POST()


@dataclass(slots=True)
class Side:
    """AutoHedge (`edge`) and whom it stands before."""

    edge: Child
    url: str
    kept: list[tuple[Message, bytes]] = field(default_factory=list)


def ready(url: str) -> None:
    """Wait until AutoHedge has heard what its workers serve."""
    until = time.monotonic() + 60
    while not httpx.get(url + "/v1/models").json()["data"]:
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """jevcompat's reference server as a process of its own."""
    engine = Child(["jevcompat.cli", "mock", "--host", "127.0.0.1", "--port", "0"], " mock on ")
    url = engine.url.removesuffix("/v1/systemone")
    with ending(engine):
        front = edge(WORKERS.format(url=url), tmp_path_factory.mktemp("edge"))
        with ending(front):
            ready(front.url)
            yield Side(front, url)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    engine = decider("tiny-jev")
    with ending(engine):
        front = edge(WORKERS.format(url=engine.url), tmp_path_factory.mktemp("edge"))
        with ending(front):
            ready(front.url)
            yield Side(front, engine.url)


@pytest.fixture(scope="module")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    kept: list[tuple[Message, bytes]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Hosted,), {"kept": kept}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    front = edge(NAMED.format(url=url) + "probe: {enabled: false}\n", tmp_path_factory.mktemp("edge"))
    with ending(front):
        ready(front.url)
        yield Side(front, url, kept)
    server.shutdown()
    server.server_close()
    thread.join()


# --- jevcompat's own suite ----------------------------------------------------------------------------------------------


def suite(url: str, folder: Path, model: str) -> dict[str, str]:
    """Requirement to verdict, as `jevcompat test` tells them."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "jevcompat.cli", "test", url, "--model", model, "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    told = json.loads(report.read_text(encoding="utf-8"))
    return {one["id"]: one["status"] for one in told["results"]}


def test_the_suite_finds_the_reference_server_as_good_as_without_us(mock: Side, tmp_path: Path) -> None:
    """Acceptance 1: with 422, as TypeSafe answers, not one verdict differs; with our 400 only the one that wants 422."""
    direct = suite(mock.url, tmp_path, "jev-latest")
    assert "fail" not in direct.values()
    through = suite(mock.edge.url, tmp_path, "jev-latest")
    assert {name for name in direct if through[name] != direct[name]} == {"errors.validation-shape"}
    for more in ("{validation_status: 422}", "{validate: off}"):
        front = edge(WORKERS.format(url=mock.url) + f"systemone: {more}\n", tmp_path)
        with ending(front):
            ready(front.url)
            assert suite(front.url, tmp_path, "jev-latest") == direct


def test_the_suite_finds_llama_cpp_as_good_as_without_us(llama: Side, tmp_path: Path) -> None:
    """Acceptance 1: a real engine fails what it fails; through us the list of models passes, which its own does not."""
    direct = suite(llama.url, tmp_path, "tiny-jev")
    through = suite(llama.edge.url, tmp_path, "tiny-jev")
    assert {name for name in direct if through[name] != direct[name]} == {"http.models"}
    assert (direct["http.models"], through["http.models"]) == ("fail", "pass")
    assert "fail" not in {through[name] for name in ("http.endpoint", "errors.no-5xx", "dropin.sdk-python")}


# --- typesafe-sdk -------------------------------------------------------------------------------------------------------


@pytest.fixture
def sdk(hosted: Side) -> Iterator[TypeSafeClient]:
    with TypeSafeClient(api_key="tsk-of-the-caller", base_url=hosted.edge.url, model="jev-latest") as client:
        yield client


def test_the_sdk_s_compressed_body(hosted: Side, sdk: TypeSafeClient) -> None:
    """Fact 0.6: over 1 KB it sends zstd; the worker gets those very bytes and the caller's key."""
    answer = sdk.system_one(state=STATE * 40, questions=QUESTIONS)
    assert answer.choices["tone"].choice in {"calm", "angry"}
    assert 0 <= answer.nouls["refund"].noul <= 1
    assert answer.model == "jev-latest"  # the name that was asked for
    headers, raw = hosted.kept[-1]
    assert headers["content-encoding"] == "zstd"
    assert headers["authorization"] == "Bearer tsk-of-the-caller"
    assert json.loads(zstandard.decompress(raw))["state"] == STATE * 40


def test_the_sdk_s_multipart_body(hosted: Side, sdk: TypeSafeClient) -> None:
    """Fact 0.6: an image is a part of its own; it arrives byte by byte."""
    image = Image(PNG)
    answer = sdk.system_one(
        state={"photo": image}, questions={"cat": SdkNoul(instructions="Is there a cat in the photo?")}
    )
    assert 0 <= answer.nouls["cat"].noul <= 1
    headers, raw = hosted.kept[-1]
    assert headers["content-type"].startswith("multipart/form-data; boundary=")
    whole = zstandard.decompress(raw) if headers["content-encoding"] == "zstd" else raw
    assert PNG in whole


def test_the_sdk_lists_models(mock: Side, llama: Side) -> None:
    """Fact 0.7: name, description and release_date, all strings, or it refuses the list."""
    for side, name in ((mock, "jev-latest"), (llama, "tiny-jev")):
        with TypeSafeClient(api_key="k", base_url=side.edge.url) as client:
            assert name in [model.name for model in client.models.list().models]


@pytest.mark.parametrize("large", [False, True], ids=["plain", "zstd"])
def test_the_sdk_shows_what_is_wrong(hosted: Side, sdk: TypeSafeClient, large: bool) -> None:
    """The message of every finding's first; a 400 is not tried again."""
    before = len(hosted.kept)
    wide = {"q": {"type": "choice", "instructions": "x", "criteria": {str(i): None for i in range(256)}}}
    with pytest.raises(TypeSafeBadRequestError) as refused:
        sdk.system_one(state=STATE * (40 if large else 1), questions=wide)  # type: ignore[arg-type]
    assert "question 'q' has 256 options" in str(refused.value)
    assert "takes at most 255" in str(refused.value)
    assert len(hosted.kept) == before


def test_the_sdk_knows_a_422(mock: Side, tmp_path: Path) -> None:
    front = edge(
        WORKERS.format(url=mock.url) + "systemone: {validation_status: 422, limits: {max_options: 1}}", tmp_path
    )
    with ending(front), TypeSafeClient(api_key="k", base_url=front.url, model="jev-latest") as client:
        ready(front.url)
        with pytest.raises(TypeSafeUnprocessableEntityError, match="takes at most 1 "):
            client.system_one(state="x", questions={"q": QUESTIONS["tone"]})


def test_the_sdk_against_llama_cpp(llama: Side) -> None:
    """A real engine behind, every type of question; its answer parses."""
    with TypeSafeClient(api_key="k", base_url=llama.edge.url, model="tiny-jev", compression=False) as client:
        answer = client.system_one(state={"mail": STATE, "lines": [1, None]}, questions=QUESTIONS)
    assert set(answer.answers) == set(QUESTIONS)
    assert answer.usage.input_tokens
    assert sum((answer.choices["tone"].probabilities or {}).values()) == pytest.approx(1)


@settings(max_examples=40, deadline=None)
@given(body=VALID)
def test_what_llama_cpp_takes_is_not_refused(llama: Side, body: dict[str, Any]) -> None:
    """Acceptance: a request that the real engine answers is answered through us, with the same probabilities."""
    direct = httpx.post(llama.url + "/v1/systemone", json=body)
    through = httpx.post(llama.edge.url + "/v1/systemone", json=body)
    assert direct.status_code == through.status_code == 200, through.text
    assert through.json()["answers"].keys() == direct.json()["answers"].keys()
    assert through.json()["model"] == body["model"]


# --- system-one ---------------------------------------------------------------------------------------------------------


@contextmanager
def asker(side: Side, model: str) -> Iterator[SystemOne]:
    """It has no close of its own; its connections do."""
    config = HTTPConfig(base_url=side.edge.url, model=model)
    with httpx2.Client(timeout=config.timeout) as client:
        yield SystemOne(using=HTTPBackend(config, client=client))


@pytest.mark.parametrize("side", ["mock", "llama"])
def test_system_one(side: str, request: pytest.FixtureRequest) -> None:
    """Another client, written by other people: without a key, its own spelling of criteria."""
    behind: Side = request.getfixturevalue(side)
    questions: dict[str, Any] = {
        "refund": Noul(instructions="Money back?"),
        "tone": Choice.model_validate({"instructions": "Tone?", "criteria": ["calm", "angry"]}),
        "urgency": Score(instructions="Urgent?", criteria=["no", "yes"]),
    }
    with asker(behind, "jev-latest" if side == "mock" else "tiny-jev") as client:
        answer = client.ask(STATE, questions)
    assert set(answer.choices["tone"].probabilities or ()) == {"calm", "angry"}
    assert 0 <= (answer.nouls["refund"].noul or 0) <= 1


def test_system_one_is_told_what_is_wrong(llama: Side) -> None:
    levels: dict[str, Any] = {"urgency": Score(instructions="Urgent?", criteria=[str(level) for level in range(11)])}
    with asker(llama, "tiny-jev") as client, pytest.raises(APIError) as refused:
        client.ask(STATE, levels)
    assert refused.value.status == 400
    assert "has 11 levels" in str(refused.value.body)


# --- @typesafe-ai/sdk ---------------------------------------------------------------------------------------------------

SCRIPT = """
import { choice, noul, score, TypeSafeClient } from "@typesafe-ai/sdk";
const client = new TypeSafeClient({ apiKey: "k", baseURL: process.argv[2] });
const models = await client.models.list();
const answer = await client.systemOne({
  model: process.argv[3],
  state: { document: "I was charged twice. ".repeat(80) },
  questions: {
    tone: choice("Tone?", { calm: null, angry: "hostile" }),
    refund: noul("Money back?"),
    urgency: score("Urgent?", ["no", "yes"]),
  },
});
let refused = null;
try {
  await client.systemOne({ model: process.argv[3], state: "x", questions: { q: { type: "noul" } } });
} catch (error) {
  refused = { name: error.constructor.name, status: error.status, message: error.message };
}
console.log(JSON.stringify({ models, answer, refused }));
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Runs the script with the SDK from npm, installed here; only where there is no node it is skipped."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("NO NODE HERE: the JavaScript SDK of TypeSafe was not tried")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    (folder / "ask.mjs").write_text(SCRIPT)
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "@typesafe-ai/sdk@0.6.0"]
    subprocess.run(install, cwd=folder, check=True, capture_output=True, timeout=500)

    def ask(url: str, model: str) -> Any:
        command = ["node", "ask.mjs", url, model]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=500)
        return json.loads(done.stdout)

    return ask


@pytest.mark.parametrize("side", ["mock", "llama"])
def test_the_javascript_sdk(side: str, request: pytest.FixtureRequest, node: Callable[..., Any]) -> None:
    """Models, an answer to every type of question, and a finding that it shows as its own class of error."""
    behind: Side = request.getfixturevalue(side)
    model = "jev-latest" if side == "mock" else "tiny-jev"
    heard = node(behind.edge.url, model)
    assert model in json.dumps(heard["models"])
    assert heard["answer"]["answers"]["tone"]["choice"] in {"calm", "angry"}
    assert heard["answer"]["model"] == model
    assert heard["refused"]["status"] == 400
    assert "noul question 'q' needs instructions" in heard["refused"]["message"]


def test_no_secret_and_no_fault_in_the_log(mock: Side, llama: Side) -> None:
    """Whatever the clients sent: no traceback, no 500 of our own, no key."""
    for side in (mock, llama):
        output = side.edge.output()
        assert "Traceback" not in output
        assert "internal_error" not in output
        assert "tsk-of-the-caller" not in output
