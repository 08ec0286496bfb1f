"""The page of the guide on object stores, with a server of S3."""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import needs
import pytest
from test_guide import STORES, check_page


@contextlib.contextmanager
def object_store() -> Iterator[None]:
    """Run an S3 server with an empty bucket "logs", to which the environment points."""
    boto3 = needs.package("boto3", "test")
    server = needs.package("moto.server", "test").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        settings = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
        }
        reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset).close()  # all servers of a process have the same objects
        with pytest.MonkeyPatch.context() as environment:
            for name, value in settings.items():
                environment.setenv(name, value)
            boto3.client("s3").create_bucket(Bucket="logs")
            yield
    finally:
        server.stop()


def test_code_runs_and_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with object_store():
        check_page(STORES)
