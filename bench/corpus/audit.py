"""Where the networks of the corpus lose time: `heddle audit` of each, counted by template and cause."""
import collections
import json
import subprocess


def cause_of(kernel):
    """What wins where that was proven, else the bound that is reached, else the machine's."""
    proven = [c["from"] for c in kernel["changes"] if c["proven"]]
    reached = [b["bound"] for b in kernel["bounds"] if b["bound"] != "roof"]
    return (proven + reached + ["roof"])[0]


def audit(heddle, path, threads, options):
    """The kernels of a file that lose time, as a row keeps them."""
    done = subprocess.run([heddle, "audit", str(path), "--threads", str(threads), "--json", "-q", *options],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"heddle audit ended by signal {-done.returncode}")
    found = json.loads(done.stdout)["audits"][0]
    kernels = [{"name": k["name"], "template": k["template"], "cause": cause_of(k), "seconds": k["seconds"],
                "lost": k["lost_s"], "change": k["changes"][0]["text"] if k["changes"] else ""}
               for k in found["kernels"] if k["lost_s"] > 0]
    return {"call": found["call_s"], "kernels": kernels}


def classes(rows):
    """(template, cause) -> kernels, networks, share of the call that is lost (mean), the kernel that loses most of its call."""
    found = collections.defaultdict(lambda: {"kernels": 0, "networks": set(), "share": 0.0, "worst": (0.0, "", "")})
    audited = [r for r in rows if "audit" in r]
    for row in audited:
        for kernel in row["audit"]["kernels"]:
            of_class = found[kernel["template"], kernel["cause"]]
            share = kernel["lost"] / row["audit"]["call"]
            of_class["kernels"] += 1
            of_class["networks"].add(row["network"])
            of_class["share"] += share / len(audited)
            of_class["worst"] = max(of_class["worst"], (share, f"{row['network']}: {kernel['name']}", kernel["change"]))
    return sorted(found.items(), key=lambda item: -item[1]["share"])


def table(rows):
    """The lost time of all audited rows as text, most of it first."""
    lines = [f"{'lost':>7} {'kernels':>7} {'networks':>8}  {'cause':9} {'template':44} worst, and what wins there"]
    for (template, cause), of_class in classes(rows):
        share, kernel, change = of_class["worst"]
        lines.append(f"{100 * of_class['share']:6.2f}% {of_class['kernels']:7} {len(of_class['networks']):8}  {cause:9} "
                     f"{template[:44]:44} {100 * share:.0f}% {kernel[:70]} {change[:80]}")
    return "\n".join(lines)
