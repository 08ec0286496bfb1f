"""Metadata from the public addresses in pyproject.toml: README as an index shows it, and links."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_SECTION = re.compile(r"\[([^\]]+)\]\(#[^)]*\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https:)([^)]*)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https:)([^)]*)\)")


class AddressesHook(MetadataHookInterface):
    """Sets what depends on the addresses."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` and `urls`."""
        repository, documentation = self.config["repository"], self.config["documentation"]
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        # The version is known only after the metadata; a release has a tag of its version.
        (version,) = re.findall(
            r'^__version__ = "(.+)"$',
            Path(self.root, "polars_rank", "__init__.py").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        text = readme(text, repository, f"v{version}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(repository, documentation)


def readme(text: str, repository: str, tag: str) -> str:
    """Return README with absolute addresses of files at a tag, or without pictures and links.

    Links to sections become text in any case: the headings of an index have no anchors.
    """
    text = _SECTION.sub(r"\1", text)
    if repository:
        text = _PICTURE.sub(rf"![\1]({repository}/raw/{tag}/\2)", text)
        return _LINK.sub(rf"[\1]({repository}/blob/{tag}/\2)", text)
    return _LINK.sub(r"\1", re.sub(_PICTURE.pattern + r"\n\n", "", text))


def urls(repository: str, documentation: str) -> dict[str, str]:
    """Return the links that an index shows beside the text."""
    found = {"Documentation": documentation, "Repository": repository}
    if repository:
        found["Changelog"] = f"{repository}/blob/main/CHANGELOG.md"
        found["Issues"] = f"{repository}/issues"
    return {name: address for name, address in found.items() if address}
