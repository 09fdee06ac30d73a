"""Measures the live overlay of an editor in Chromium: ``python -m tests.widgets.overlay_frames [PROFILE]``.

A plan of 60 operators runs in the page: all rates, queues, and the time change ten times a second, and now and then a
peer, a state, a backup or a mark. The output are the frames a second, the redraws, the processor time of each, and the
longest tasks of the main thread. With a path, a CPU profile of the page is written there, for DevTools.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from synergy_nb.plan import Plan, source
from synergy_nb.widgets.plan_editor import PlanEditor
from tests.browser import FLAGS, NO_CHROMIUM, BarePage, Tab, find_chromium, new_page

SECONDS = 20
OPERATORS = 60

DRIVE = """async ([model, ids, edges, seconds]) => {
    const view = document.querySelector("#view-1").synergyEditor;
    const begin = performance.now();
    let [frames, step] = [0, 0];
    const count = () => { frames++; if (performance.now() - begin < seconds * 1000) requestAnimationFrame(count); };
    requestAnimationFrame(count);
    const redraws = view.frames;
    await new Promise((resolve) => {
        const timer = setInterval(() => {
            step++;
            const wave = (number) => 0.5 + 0.5 * Math.sin(step / 9 + number);
            const live = {
                application: "a", state: "running", tone: "good", sentence: "", start: 0, now: step / 10,
                peers: Object.fromEntries(ids.map((id, n) => [id, `peer-${1 + ((n + (step % 50 === 0)) % 8)}`])),
                states: Object.fromEntries(ids.map((id) => [id, "running"])),
                tips: Object.fromEntries(ids.map((id, n) => [id, [`load ${(100 * wave(n)).toFixed(1)} %`]])),
                rates: Object.fromEntries(edges.map((edge, n) => [edge, `${Math.round(2000 * wave(n))} tuples/s`])),
                queues: Object.fromEntries(ids.map((id, n) => [id, Math.round(1000 * wave(n)) / 1000])),
                backups: step % 100 > 50 ? { [ids[9]]: ["peer-4"] } : {},
                replicas: {}, shared: {}, spark: [],
                marks: [...Array(step >> 4).keys()].map((n) => ({ t: 1.6 * n, kind: "move", text: `move ${n}` })),
            };
            if (step % 60 > 40) live.states[ids[7]] = "overloaded";
            models.get(model).take({ live });
            if (performance.now() - begin >= seconds * 1000) { clearInterval(timer); resolve(); }
        }, 100);
    });
    return { frames: frames / seconds, redraws: view.frames - redraws, steps: step };
}"""


def sixty() -> Plan:
    """Six branches of nine operators each, which are joined in one sink."""
    branches = []
    for number in range(6):
        stream = source("packets", seed=number, id=f"packets_{number}")
        for step in range(8):
            stream = stream.filter(f"bytes > {step}", id=f"large_{number}_{step}")
        branches.append(stream)
    whole = branches[0].union(*branches[1:], id="all")
    for step in range(OPERATORS - 56):
        whole = whole.filter(f"bytes > {100 + step}", id=f"rest_{step}")
    return whole.sink("sixty")


def main(profile: str | None) -> None:
    """Measure, and print what was found."""
    executable = find_chromium()
    if executable is None:
        sys.exit(NO_CHROMIUM)
    plan = sixty()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        with new_page(chromium) as made:
            bare = BarePage(Tab(made))
            made.set_viewport_size({"width": 1400, "height": 900})
            editor = PlanEditor(plan.to_yaml())
            bare.show(editor)
            bare.until("() => document.querySelectorAll('.node').length > 50")
            tools = made.context.new_cdp_session(made)
            tools.send("Performance.enable", {"timeDomain": "threadTicks"})
            edges = [f"{up}>{name}" for name in plan.operators for up in plan.upstream(name)]
            before = _metrics(tools)
            if profile:
                tools.send("Profiler.enable")
                tools.send("Profiler.start")
            chromium.start_tracing(page=made, categories=["toplevel"])
            found = made.evaluate(DRIVE, [editor.model_id, list(plan.operators), edges, SECONDS])
            trace = chromium.stop_tracing()
            if profile:
                Path(profile).write_text(json.dumps(tools.send("Profiler.stop")["profile"]), "utf-8")
            after = _metrics(tools)
            bare.close()
        chromium.close()
    each = {name: 1000 * (after[name] - before[name]) / found["steps"] for name in before}
    rate = found["steps"] / SECONDS
    print(f"{len(plan.operators)} operators, {rate:.1f} overlays and {found['frames']:.0f} frames a second")
    print(f"{found['redraws']} redraws for {found['steps']} overlays")
    print("of the main thread, ms an overlay:", ", ".join(f"{name} {value:.1f}" for name, value in each.items()))
    for field, words in (("dur", "wall"), ("tdur", "processor")):
        tasks = tasks_of(trace, field)
        longest = ", ".join(f"{task:.0f}" for task in tasks[:12])
        print(f"{words} time: {sum(task > 50 for task in tasks)} tasks above 50 ms; longest: {longest} ms")


def tasks_of(trace: bytes, field: str) -> list[float]:
    """Wall (``dur``) or processor (``tdur``) times of the tasks of the page's main thread, ms, longest first."""
    events = json.loads(trace)["traceEvents"]
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in events if each["name"] == "thread_name"}
    found = [
        each[field] / 1000
        for each in events
        if each["name"].endswith("RunTask")
        and field in each
        and names.get((each["pid"], each["tid"])) == "CrRendererMain"
    ]
    return sorted(found, reverse=True)


def _metrics(tools: Any) -> dict[str, float]:
    wanted = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    found = {each["name"]: each["value"] for each in tools.send("Performance.getMetrics")["metrics"]}
    return {name.removesuffix("Duration"): found[name] for name in wanted}


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
