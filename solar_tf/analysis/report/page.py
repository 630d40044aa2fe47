"""The page around the sections: one file without scripts, for light and dark screens."""

import html

from solar_tf.analysis.charts import COLOURS

STYLE = """
:root{color-scheme:light dark;--paper:#fcfcfa;--card:#fff;--ink:#1d2126;--soft:#626a73;
--line:#e3e4e0;--good:#1c7a45;--mark:#eef3fa;
--c0:#2563a8;--c1:#d9541e;--c2:#2b8a57;--c3:#8b4bb0;--c4:#a8780c;
--c5:#c23b63;--c6:#0f8b96;--c7:#6b6f76;--c8:#6f7a12;--c9:#7d4a33}
@media(prefers-color-scheme:dark){:root{--paper:#14171b;--card:#1b1f25;--ink:#e6e8ea;--soft:#9aa3ad;
--line:#2d333b;--good:#62cf90;--mark:#212b38;
--c0:#6fb1f5;--c1:#ff9466;--c2:#63cf94;--c3:#c99bea;--c4:#e3b84d;
--c5:#ff86a8;--c6:#4fd0da;--c7:#a7abb3;--c8:#c3cf62;--c9:#d9a58c}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
main,header,nav{max-width:1180px;margin:0 auto;padding:0 20px}
header{padding-top:34px}h1{font-size:1.75rem;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:1.25rem;margin:46px 0 4px;letter-spacing:-.005em}
h3{font-size:1rem;margin:0 0 2px}p{margin:6px 0 12px;max-width:75ch}
a{color:var(--c0)}.soft,.note,figcaption{color:var(--soft)}.note{font-size:.85rem}
nav{position:sticky;top:0;background:var(--paper);border-bottom:1px solid var(--line);z-index:1;
padding-top:9px;padding-bottom:9px;margin-top:14px;white-space:nowrap;overflow-x:auto;font-size:.88rem}
nav a{color:var(--soft);text-decoration:none;margin-right:16px}nav a:hover{color:var(--ink)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:10px;margin:18px 0}
.cards div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 13px}
.cards b{display:block;font-size:1.3rem;font-weight:650;font-variant-numeric:tabular-nums}
.cards span{color:var(--soft);font-size:.8rem}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,430px),1fr));gap:16px;
margin:14px 0;align-items:start}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:14px 14px 10px;min-width:0}
figcaption{font-size:.84rem;margin:2px 0 8px}
svg{width:100%;height:auto;display:block;overflow:visible}
svg text{font-size:10.5px;font-family:inherit}
.legend{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:.8rem;margin:2px 0 6px}
.legend i{display:inline-block;width:16px;border-top:3px solid currentColor;margin-right:5px;
vertical-align:middle}.legend i.dashed{border-top-style:dashed}
details{font-size:.85rem;margin-top:6px}summary{cursor:pointer;color:var(--soft)}
.scroll{overflow-x:auto;margin:10px 0}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums;min-width:100%}
th,td{padding:5px 10px;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;
white-space:nowrap}.w{white-space:normal;min-width:9em}
th{font-weight:600;color:var(--soft)}.n{text-align:right}
tbody tr:hover{background:var(--mark)}td:first-child{font-weight:550}
.sample{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:13px 15px}
.sample q{font-size:1.02rem;font-weight:600}.sample ol{margin:4px 0 10px;padding-left:24px;
font-size:.88rem}.sample h3{font-size:.85rem;margin-top:10px;color:var(--soft)}
.right::marker{color:var(--good)}.right{color:var(--good)}.wrong{color:var(--ink)}
.tag{font-size:.74rem;border:1px solid var(--line);border-radius:9px;padding:1px 8px;
color:var(--soft);margin-right:6px}
footer{max-width:1180px;margin:50px auto 30px;padding:0 20px;font-size:.82rem;color:var(--soft)}
@media(max-width:520px){body{font-size:15px}h1{font-size:1.4rem}th,td{padding:4px 7px}
main,header,nav,footer{padding-left:14px;padding-right:14px}figure{padding:11px 9px 8px}
svg text{font-size:12.5px}
.cards{grid-template-columns:repeat(2,1fr)}}
@media print{nav{display:none}figure,.sample{break-inside:avoid}}
""" + "".join(f".c{i}{{color:var(--c{i})}}" for i in range(COLOURS))


def page(title, subtitle, sections, footer):
    """A whole document; sections are (anchor, name, html)."""
    links = "".join(
        f'<a href="#{anchor}">{html.escape(name.split(" (")[0])}</a>'
        for anchor, name, _ in sections
    )
    body = "\n".join(
        f'<section id="{anchor}"><h2>{html.escape(name)}</h2>\n{content}</section>'
        for anchor, name, content in sections
    )
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>"
        f"<header><h1>{html.escape(title)}</h1><p class=soft>{html.escape(subtitle)}</p></header>"
        f"<nav>{links}</nav>\n<main>{body}</main>\n"
        f"<footer>{html.escape(footer)}</footer></body></html>\n"
    )


def figure(title, caption, chart, numbers=None):
    """A chart with its caption, and its numbers (a tables.Table) to unfold."""
    more = ""
    if numbers is not None and numbers.rows:
        more = f"<details><summary>numbers</summary>{numbers.html()}</details>"
    return (
        f"<figure><h3>{html.escape(title)}</h3><figcaption>{html.escape(caption)}</figcaption>"
        f"{chart.figure()}{more}</figure>"
    )


def grid(*parts):
    return f"<div class=grid>{''.join(parts)}</div>"


def paragraph(text, kind=""):
    return f'<p class="{kind}">{html.escape(text)}</p>' if kind else f"<p>{html.escape(text)}</p>"


def titled(*tables):
    """Tables below their titles."""
    return "".join(f"<h3>{html.escape(table.title)}</h3>{table.html()}" for table in tables)


def cards(pairs):
    """Large figures with a few words below each."""
    inner = "".join(
        f"<div><b>{html.escape(str(value))}</b><span>{html.escape(name)}</span></div>"
        for name, value in pairs
    )
    return f"<div class=cards>{inner}</div>"
