"""What `heddle tune` found, followed into other processes: nodes from the plan, and what a call takes there.

The plan is made for all threads. Where it is used, no flag or variable names it, except its own path.
"""
import json
import os
import subprocess

RETUNED = 1  # threads


def said(heddle, *words, environment=None):
    """Standard output and error of a command."""
    done = subprocess.run([heddle, *map(str, words)], capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"heddle {words[0]}: {done.stderr.strip() or f'ended by signal {-done.returncode}'}")
    return done.stdout, done.stderr


def bare():
    """The environment of this process without Heddle's variables, except the one that leaves shipped records out."""
    return {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE_")} | {"HEDDLE_TOPHUB": "off"}


def times_of(seconds, rule_seconds):
    return {"seconds": seconds, "rule_seconds": rule_seconds}


def benched(heddle, plan):
    """A call by a plan and by the rules, in turns in a process of its own."""
    (found,) = json.loads(said(heddle, "bench", plan, "--time", 2, "--json", "-", environment=bare())[0])["models"]
    return times_of(found["plan_seconds"], found["rule_seconds"])


def nodes_of(plan):
    return json.loads(plan.read_text())["nodes"]


def tuned_nodes(plan):
    """How many nodes have another schedule than the rule's."""
    return sum(n.get("schedule") != "rule" for n in nodes_of(plan))


def race_of(plan):
    return times_of(*(json.loads(plan.read_text())[k] for k in ("seconds", "rule_seconds")))


def lower_quartile(seconds):
    """What a call takes that no other process of the machine disturbs; half of all calls may be disturbed."""
    return sorted(seconds)[len(seconds) // 4]


def libraries(heddle, path, plan, extra, feed, wanted, difference, seconds):
    """A call of the library with the plan and of the one without, in turns, and how far the first is from `wanted`."""
    import exported
    import race
    threads = os.cpu_count()
    ours = exported.export(heddle, plan, threads)
    rules = exported.export(heddle, path, threads, ["--plan", "none", *extra])
    for library in (ours, rules):
        library.set_threads(threads)
    far = max(difference(got, want) for got, want in zip(ours.run(feed), wanted))
    took = race.race({"plan": lambda: ours.run(feed), "rules": lambda: rules.run(feed)}, seconds, middle=lower_quartile)
    return {**times_of(took["plan"], took["rules"]), "difference": far}


def follow(heddle, path, budget, extra, feed, wanted, difference, seconds):
    """Tunes a file, and finds what was found: in the plan, in another process, in a library, at another number of threads."""
    plan, retuned, log = (path.with_suffix(s) for s in (".heddle", f".{RETUNED}.heddle", ".tune.jsonl"))
    said(heddle, "tune", path, "--budget", budget, "-o", plan, "--log", log, "-q", *extra)
    row = {"nodes": len(nodes_of(plan)), "tuned": tuned_nodes(plan),
           "says": said(heddle, "run", plan, "--time", 0, environment=bare())[1].strip().rsplit(": ", 1)[-1],
           "race": race_of(plan), "bench": benched(heddle, plan),
           "library": libraries(heddle, path, plan, extra, feed, wanted, difference, seconds)}
    said(heddle, "plan", "retune", plan, "--threads", RETUNED, "--budget", budget, "-o", retuned)
    row["retuned"] = {"tuned": tuned_nodes(retuned), "race": race_of(retuned), "bench": benched(heddle, retuned)}
    return row


def gain(of):
    return of["rule_seconds"] / of["seconds"] if of["seconds"] > 0 else float("nan")


def table(rows):
    """Markdown: what a call takes by the plan, and how much longer by the rules."""
    lines = [f"| network | nodes | by plan | race | new process | library | difference | by plan at {RETUNED} thread | race | new process |",
             "|---|---|---|---|---|---|---|---|---|---|"]

    def cell(of):
        return f"{of['seconds'] * 1e3:.3f} ms, {gain(of):.2f}" if of["seconds"] > 0 else "-"

    for row in rows:
        t = row.get("tuned")
        if not t:
            continue
        again = t["retuned"]
        lines.append(f"| {row['network'].split('/')[1]} | {t['nodes']} | {t['tuned']} | {cell(t['race'])} | {cell(t['bench'])} | "
                     f"{cell(t['library'])} | {t['library']['difference']:.0e} | {again['tuned']} | {cell(again['race'])} | "
                     f"{cell(again['bench'])} |")
    return "\n".join(lines)
