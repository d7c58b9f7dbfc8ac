"""Summarises the result file of a sitting for a person, in at most LINES lines."""

import collections
import json
import pathlib
import sys

LINES, WIDTH, MOST_FAILURES = 60, 160, 20


def first_line(stage):
    lines = [line for line in stage.get("reason", "").splitlines() if line.strip()]
    return lines[0].strip() if lines else "no reason is given"


class Sentence(str):
    """A sentence of a headline, which is not shortened."""


def shortened(text):
    return text if len(text) <= WIDTH or isinstance(text, Sentence) else text[:WIDTH - 1] + "…"


def machine_lines(document):
    found = document["environment"]
    if document["host"]:
        return ["CPU times of the stand-in, at tiny sizes: a rehearsal, and no results of a GPU.",
                f"ucudnn {found.get('commit')}, Python {found.get('python')}"]
    named = [f"{name} {found[name]}" for name in ("cudnn", "torch", "jax", "diffusers") if found.get(name)]
    return [f"{found.get('gpu')}, driver {found.get('driver')}, compute mode {found.get('compute_mode')}",
            f"ucudnn {found.get('commit')}, {', '.join(named)}"]


def lines(document):
    stages = document["stages"]
    by_outcome = collections.defaultdict(list)
    for stage in stages:
        by_outcome[stage["outcome"]].append(stage)
    told = machine_lines(document)
    counts = ", ".join(f"{len(by_outcome[outcome])} {outcome}" for outcome in
                       ("passed", "failed", "cut", "running", "skipped", "not run") if by_outcome[outcome])
    told.append(f"{len(stages)} stages: {counts}")
    bad = [stage for outcome in ("failed", "cut", "running") for stage in by_outcome[outcome]]
    told += [f"{stage['outcome'].upper()} {stage['name']}: {first_line(stage)}" for stage in bad[:MOST_FAILURES]]
    if len(bad) > MOST_FAILURES:
        told.append(f"and {len(bad) - MOST_FAILURES} more that failed")
    told += [f"skipped {stage['name']}: {first_line(stage)}" for stage in by_outcome["skipped"][:5]]
    if by_outcome["not run"]:
        told.append(f"not run: {', '.join(stage['name'] for stage in by_outcome['not run'])}")
    for stage in stages:
        figures = stage.get("figures") or {}
        told += [Sentence(f"{stage['name']}: {sentence}") for sentence in figures.get("sentences", [])]
        findings = figures.get("findings", [])
        told += [f"{stage['name']}: {len(findings)} findings, the first: {findings[0]}"] if findings else []
    if by_outcome["passed"]:
        told.append(f"passed: {', '.join(stage['name'] for stage in by_outcome['passed'])}")
    if len(told) > LINES:
        told = [*told[:LINES - 1], f"and {len(told) - LINES + 1} lines more, which the file has"]
    return [shortened(line) for line in told]


def main(path):
    try:
        document = json.loads(pathlib.Path(path).read_text())
        if document.get("format") != "ucudnn-gpu-check":
            raise ValueError("its format is not ucudnn-gpu-check")
        print("\n".join(lines(document)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"tools/gpu-check: --summary {path}: no result of tools/gpu-check: {error}", file=sys.stderr)
        return 2
    return 0
