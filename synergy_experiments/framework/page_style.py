"""Style of the page of claims: light and dark, on a screen and on paper."""

from __future__ import annotations

from typing import Final

__all__ = ["STYLE"]

STYLE: Final = """
:root{color-scheme:light dark;--text:light-dark(#1f2328,#e6edf3);--dim:light-dark(#57606a,#9aa4ae);
--line:light-dark(#d8dee4,#3d444d);--back:light-dark(#fff,#0d1117);--soft:light-dark(#f6f8fa,#161b22);
--yes:light-dark(#116329,#4ac26b);--part:light-dark(#8a4600,#e0a040);--no:light-dark(#b3141f,#ff7b72);
--link:light-dark(#0550ae,#79b8ff)}
*{box-sizing:border-box}html{scroll-padding-top:40px}
body{font:15px/21px system-ui,"DejaVu Sans",sans-serif;margin:0;color:var(--text);background:var(--back)}
main{max-width:1256px;margin:0 auto;padding:0 16px}a{color:var(--link)}
a:focus-visible,summary:focus-visible{outline:2px solid var(--link);outline-offset:2px}
nav{position:sticky;top:0;z-index:1;background:var(--soft);border-bottom:1px solid var(--line);padding:8px 16px;
display:flex;gap:18px;height:38px;font-size:14px;white-space:nowrap;overflow:auto}
.skip:not(:focus),.vh{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
h1{font-size:24px;line-height:30px;margin:10px 0 6px}h2{font-size:22px;margin:36px 0 8px}
h3{font-size:18px;line-height:24px;margin:10px 0 8px}h3 em{font-style:normal;font-weight:400;color:var(--dim)}
p{margin:0 0 8px}.who,small,.more{color:var(--dim)}small,.more{font-size:13px}.short,p small strong{color:var(--part)}
section.claim{border-top:2px solid var(--line);padding-bottom:10px;margin-top:10px}
.two{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:20px;align-items:start}
table{border-collapse:collapse;width:100%;font-size:13.5px;line-height:18px}
th,td{border-bottom:1px solid var(--line);padding:3px 6px;text-align:left;vertical-align:top}
table.checks td:nth-child(3){width:112px}table.checks td:nth-child(4){width:128px}
table.checks td:first-child{width:22px}
table.all td:nth-child(3){width:200px}table.all td:nth-child(4){width:300px}
table.claims{font-size:12.5px;line-height:17px;table-layout:fixed}
table.claims th:first-child{width:24px}table.claims th:nth-child(3){width:62px}
table.claims th:nth-child(4){width:104px}table.claims th:nth-child(5){width:176px}
table.claims th,table.claims td{padding:1px 5px}
table.claims small{font-size:11.5px}table.claims tbody th[scope=row]{font-weight:400}
table.claims th[scope=rowgroup]{background:var(--soft)}table.claims th small{font-weight:400}
.m{display:inline-block;width:1.1em;font-weight:700;text-align:center;color:var(--dim)}
.yes{color:var(--yes)}.part{color:var(--part)}.no{color:var(--no)}.tally{margin-right:14px;white-space:nowrap}
a.w{color:inherit;text-decoration:underline dotted var(--dim);text-underline-offset:3px}
figure{margin:0;background:#fff;border-radius:4px}img{display:block;max-width:100%;height:auto}
.folds{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:14px}details[open]{flex-basis:100%}
summary{cursor:pointer;color:var(--link)}details table{margin:6px 0}
dl{columns:3;font-size:13.5px;line-height:18px}dt{font-weight:600;break-after:avoid}
dd{margin:0 0 6px;break-inside:avoid}
dt:target,section:target>h2{background:var(--soft);outline:2px solid var(--link)}
@media screen and (max-width:900px){.two{grid-template-columns:minmax(0,1fr)}dl{columns:1}}
@page{size:A4 landscape;margin:9mm}
@media print{:root{color-scheme:light}nav,details:not([open]){display:none}section.claim{break-inside:avoid}
a{color:inherit;text-decoration:none}body{font-size:10pt}}
"""
