"""The card that a picture of bars is drawn on: SVG, readable on light and on dark pages."""

from collections.abc import Iterable, Mapping
from html import escape


def card(
    width: int,
    height: int,
    title: str,
    told: str,
    bars: Mapping[str, tuple[str, str]],
    parts: Iterable[str],
) -> str:
    """A picture.

    Args:
        width: In pixels.
        height: In pixels.
        title: The subject of the picture.
        told: The same in words, for those who cannot see it.
        bars: The colours of each class of bars, on light and on dark ground.
        parts: The elements that are drawn.
    """
    size = f'width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}',
            ' role="img" aria-labelledby="title told">',
            f'<title id="title">{title}</title>',
            f'<desc id="told">{escape(told)}</desc>',
            f"<style>{_style(bars)}</style>",
            f'<rect class="ground" {size} rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _style(bars: Mapping[str, tuple[str, str]]) -> str:
    # The card has a ground of its own: a page may be dark where the reader's system is light.
    light, dark = (
        "\n".join(f"{'  ' * at}.{kind} {{ fill: {fills[at]} }}" for kind, fills in bars.items())
        for at in (0, 1)
    )
    return f"""
svg {{ font: 13px system-ui, sans-serif }}
.ground {{ fill: #ffffff; stroke: #d1d9e0 }}
.track {{ fill: #e4e8ec }}
{light}
.goal {{ stroke: #1f2328; stroke-width: 2 }}
text {{ fill: #1f2328 }}
.head {{ font-weight: 600 }}
.foot {{ fill: #59636e; font-size: 11px }}
@media (prefers-color-scheme: dark) {{
  .ground {{ fill: #0d1117; stroke: #3d444d }}
  .track {{ fill: #262c36 }}
{dark}
  .goal {{ stroke: #f0f6fc }}
  text {{ fill: #f0f6fc }}
  .foot {{ fill: #9198a1 }}
}}
"""
