"""The settings of `http`; no message shows a URL or the text of a header."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobqueued.config import Config
from jobqueued.config.hosts import check_url, is_host, is_loopback, read_host
from jobqueued.model.job_type import HttpHandler
from tests.config.support import http_of

Load = Callable[[str], Config]
Faults = Callable[[str], list[str]]

URL = "url = 'https://example.com/'"
FROM = "url_from = 'payload.url'\nallowed_hosts = ['example.com']"


def http(*lines: str) -> str:
    return "[types.x.http]\n" + "\n".join(lines)


def test_everything_set_with_a_url(load: Load) -> None:
    lines = [URL, "headers = { Authorization = 'Bearer x', User-Agent = 'me' }"]
    config = load(http(*lines, "connect_timeout = '250ms'", "ca_file = '/ca.pem'"))
    assert http_of(config, "x") == HttpHandler(
        url="https://example.com/",
        headers={"Authorization": "Bearer x", "User-Agent": "me"},
        connect_timeout=250,
        ca_file="/ca.pem",
    )


def test_everything_set_with_a_field(load: Load) -> None:
    lines = ["url_from = 'payload.to.url'", "allowed_hosts = ['A.example.', '*.Example.org']"]
    assert http_of(load(http(*lines, "allow_private = true")), "x") == HttpHandler(
        url_from=("to", "url"), allowed_hosts=("a.example", "*.example.org"), allow_private=True
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:9000/hooks/notify",
        "https://example.com",
        "HTTPS://Example.COM/Path?query=1&b=%20",
        "https://bücher.example/weg",
        "https://my_service:8443/",
        "https://10.0.0.1/",
        "https://[2001:db8::1]:8443/x",
        "https://example.com./",
        "https://example.com/a@b",
        "https://example.com/" + "x" * 7900,
    ],
)
def test_urls(load: Load, url: str) -> None:
    assert http_of(load(http(f"url = '{url}'")), "x").url == url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", 'must start with "https://" or "http://"'),
        ("example.com/hook", 'must start with "https://" or "http://"'),
        ("ftp://example.com/", 'must start with "https://" or "http://"'),
        ("//example.com/", 'must start with "https://" or "http://"'),
        ("https:///path", "names no host"),
        ("https://", "names no host"),
        ("https://:443/", "names no host"),
        ("https://user:hunter2@example.com/", "must not contain a user name or password: send"),
        ("https://hunter2@example.com/", "must not contain a user name or password: send them in"),
        ("https://@example.com/", "must not contain a user name or password"),
        ("https://example.com/hunter2#part", 'must not contain "#": what follows it is never sent'),
        ("https://example.com/hunter2#", 'must not contain "#"'),
        ("https://example.com:0/", "has a host or a port that is not valid"),
        ("https://example.com:65536/", "has a host or a port that is not valid"),
        ("https://example.com:http/", "has a host or a port that is not valid"),
        ("https://[::1/", "has a host or a port that is not valid"),
        ("https://[hunter2]/", "has a host or a port that is not valid"),
        ("https://exa..mple/", "has a host that is neither a name nor an IP address"),
        ("https://-example.com/", "has a host that is neither a name nor an IP address"),
        ("https://*.example.com/", "has a host that is neither a name nor an IP address"),
        (f"https://{'x' * 64}.example/", "has a host that is neither a name nor an IP address"),
        (f"https://{'x.' * 127}example/", "has a host that is neither a name nor an IP address"),
        ("https://example.com/hunter2 x", "must not contain spaces, backslashes or control"),
        (
            "https://example.com\\\\@evil.example/",
            "must not contain spaces, backslashes or control",
        ),
        ("https://exam\\tple.com/", "must not contain spaces, backslashes or control"),
        ("https://example.com/\\n", "must not contain spaces, backslashes or control"),
        ("https://example.com/\\u0000", "must not contain spaces, backslashes or control"),
        ("https://example.com/" + "x" * 8000, "is longer than 8000 characters"),
    ],
)
def test_what_is_no_url(faults: Faults, url: str, message: str) -> None:
    (found,) = faults(http(f'url = "{url}"'))
    assert found.startswith(f"types.x.http.url: {message}")
    assert "hunter2" not in found


@pytest.mark.parametrize(
    ("text", "keys"), [("payload.url", ("url",)), ("payload.a.b-c.0", ("a", "b-c", "0"))]
)
def test_fields(load: Load, text: str, keys: tuple[str, ...]) -> None:
    config = load(http(f"url_from = '{text}'", "allowed_hosts = ['a.example']"))
    assert http_of(config, "x").url_from == keys


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("'url'", 'such as "payload.url", not "url" (did you mean "payload.url"?)'),
        ("'payload'", 'must be a field of the payload such as "payload.url", not "payload"'),
        ("'payload.'", 'not "payload."'),
        ("'payload..url'", 'not "payload..url"'),
        ("'job.url'", 'not "job.url"'),
        ("''", 'not ""'),
        ("3", "must be a field of the payload"),
        (f"'payload{'.a' * 21}'", "has 21 levels: at most 20 are allowed"),
    ],
)
def test_what_is_no_field(faults: Faults, text: str, message: str) -> None:
    (found,) = faults(http(f"url_from = {text}", "allowed_hosts = ['a.example']"))
    assert found.startswith("types.x.http.url_from: ")
    assert message in found


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.COM", "example.com"),
        ("*.example.com.", "*.example.com"),
        ("10.0.0.1", "10.0.0.1"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("bücher.example", "bücher.example"),
        ("my_service", "my_service"),
    ],
)
def test_hosts(text: str, host: str) -> None:
    assert read_host(text) == host


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("'*'", '"*" is every host: name those that are meant'),
        ("'*.'", '"*." is every host: name those that are meant'),
        ("'a.*.example'", 'has a "*" that is not its first part, as in "*.example.com"'),
        ("'*example.com'", 'has a "*" that is not its first part'),
        ("'*.*.example'", 'has a "*" that is not its first part'),
        ("'*.10.0.0.1'", '"*.10.0.0.1" is not a host alone'),
        ("'https://a.example/x'", 'is not a host alone, such as "hooks.example.com" or'),
        ("'https://a.example/x'", '(did you mean "a.example"?)'),
        ("'a.example:443'", '(did you mean "a.example"?)'),
        ("'a.example/x'", '(did you mean "a.example"?)'),
        ("''", '"" is not a host alone'),
        ("'.example.com'", '".example.com" is not a host alone'),
        ("'a b'", '"a b" is not a host alone'),
        ("5", "must be a host in quotes, not 5"),
    ],
)
def test_what_is_no_host(faults: Faults, item: str, message: str) -> None:
    (found,) = faults(http("url_from = 'payload.url'", f"allowed_hosts = ['ok', {item}]"))
    assert found.startswith("types.x.http.allowed_hosts[1]: ")
    assert message in found


@pytest.mark.parametrize("host", ["localhost", "a.LOCALHOST.", "127.0.0.1", "127.9.9.9", "::1"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["example.com", "10.0.0.1", "0.0.0.0", "::", "localhost.example", "notlocalhost", ""]
)
def test_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@given(st.text())
def test_any_text_is_a_url_and_a_host_or_not(text: str) -> None:
    for read in (check_url, read_host, is_host):
        with contextlib.suppress(ValueError):
            read(text)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("Content-Type = 'x'", "Content-Type: is set by jobqueued for every request: choose"),
        ("content-length = '1'", "content-length: is set by jobqueued"),
        ("HOST = 'x'", "HOST: is set by jobqueued"),
        ("Transfer-Encoding = 'chunked'", "Transfer-Encoding: is set by jobqueued"),
        ("traceparent = 'x'", "traceparent: is set by jobqueued"),
        ("Webhook-Id = 'x'", "Webhook-Id: is set by jobqueued"),
        ("webhook-anything = 'x'", "webhook-anything: is set by jobqueued"),
        ("Jobqueued-Type = 'x'", "Jobqueued-Type: is set by jobqueued"),
        ("'X Y' = 'x'", '"X Y": is not the name of a header: it is made of letters, digits and -'),
        ("'X:' = 'x'", '"X:": is not the name of a header'),
        ("'' = 'x'", '"": is not the name of a header'),
        ("'Ü' = 'x'", '"Ü": is not the name of a header'),
        ('"X\\r\\nY" = "x"', "is not the name of a header"),
        ("X = 4711", "X: must be text in quotes"),
        ("X = ''", "X: must be ASCII text on one line, not empty, without spaces around it"),
        ("X = ' 4711'", "X: must be ASCII text on one line"),
        ("X = '4711 '", "X: must be ASCII text on one line"),
        ('X = "4711\\r\\nInjected: 1"', "X: must be ASCII text on one line"),
        ('X = "4711\\n"', "X: must be ASCII text on one line"),
        ('X = "4711\\u0000"', "X: must be ASCII text on one line"),
        ("X = '4711é'", "X: must be ASCII text on one line"),
        (f"X = '{'4711' * 2001}'", "X: is longer than 8000 characters"),
        ("X-A = '1'\nx-a = '2'", "x-a: is there twice: upper and lower case are the same"),
    ],
)
def test_what_is_no_header(faults: Faults, header: str, message: str) -> None:
    (found,) = faults(http(URL, "[types.x.http.headers]", header))
    assert found.startswith("types.x.http.headers.")
    assert message in found
    assert "4711" not in found


@pytest.mark.parametrize(
    "header", ["User-Agent = 'me'", "Authorization = 'Bearer a b'", "X-1 = '!'", 'X = "a\\tb"']
)
def test_headers(load: Load, header: str) -> None:
    assert len(http_of(load(http(URL, "[types.x.http.headers]", header)), "x").headers) == 1


def test_too_many_headers(faults: Faults) -> None:
    headers = "\n".join(f"X-{number} = 'x'" for number in range(101))
    (found,) = faults(http(URL, "[types.x.http.headers]", headers))
    assert found == "types.x.http.headers: has 101 entries: at most 100 are allowed"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "types.x.http: does not say where to post: set url, or url_from with allowed_hosts"),
        ([URL, FROM], "types.x.http: has url and url_from: keep one of them"),
        (
            ["url_from = 'payload.url'"],
            "types.x.http.url_from: needs the hosts that payloads may name, such as allowed_ho",
        ),
        ([FROM.replace("'example.com'", "")], "types.x.http.allowed_hosts: is empty: it must be a"),
        (
            [URL, "allowed_hosts = ['a']"],
            "allowed_hosts: means nothing for url: it is for url_from",
        ),
        ([URL, "allow_private = true"], "allow_private: means nothing for url: it is for url_from"),
        ([FROM, "allow_private = 'yes'"], "allow_private: must be true or false, not"),
        ([URL, "headers = 'X: 4711'"], "types.x.http.headers: must be a table of texts such as {"),
        ([URL, "connect_timeout = '0s'"], "connect_timeout: must be a duration from 10ms to 10m"),
        (
            [URL, "secret = '4711'"],
            'types.x.http.secret: unknown key (did you mean "secret_file"?)',
        ),
        ([URL, "timeout = '1s'"], "types.x.http.timeout: unknown key (did you mean"),
        (["url = 5"], "types.x.http.url: must be a URL such as"),
    ],
)
def test_one_fault(faults: Faults, lines: list[str], message: str) -> None:
    (found,) = faults(http(*lines))
    assert message in found
    assert "4711" not in found


def test_a_url_alone_is_not_shown(faults: Faults) -> None:
    (found,) = faults("[types.x]\nhttp = 'https://user:hunter2@example.com'")
    assert found.startswith("types.x.http: must be a table with url, url_from, allowed_hosts")
    assert found.endswith("not text")


def test_headers_of_several_files_are_joined(load: Load, tmp_path: Path) -> None:
    drop_in = tmp_path / "conf.d"
    drop_in.mkdir()
    (drop_in / "token.toml").write_text("[types.x.http.headers]\nAuthorization = 'Bearer x'")
    config = load(http(URL, "headers = { X-A = 'a' }"))
    assert http_of(config, "x").headers == {"X-A": "a", "Authorization": "Bearer x"}
