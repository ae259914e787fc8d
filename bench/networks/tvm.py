#!/usr/bin/env python3
"""Tunes an ONNX file by TVM's MetaSchedule within a budget of seconds, and times the result.

    tvm.py model.onnx [--seconds 300] [--threads 2] [--mcpu NAME] [--trials-per-round 16]
           [--work-dir FOLDER] [--dump FILE]

What `heddle tune model.onnx --budget 300s` is compared with. Needs tvm_requirements.txt in an
environment of its own, and there, because later ones crash, what pip does not choose by itself:

    pip install --no-deps apache-tvm-ffi==0.1.14

MetaSchedule counts trials and not seconds: tuning stops after the round of a task in which the
budget is spent. The budget begins when MetaSchedule has been loaded. Tasks that had no trial by
then run as TVM compiles them without a schedule; the last line says how many there are.

TVM takes the name of the processor from LLVM, which goes by the family and model that a hypervisor
reports. --mcpu names another one. --dump writes the answer as a .npy file for a comparison.
"""
import argparse
import os
import statistics
import sys
import tempfile
import time

# This file has the name of the package: its own folder must not be where Python looks first.
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != HERE]


def import_tvm():
    """The package, or an end with a message that says what is missing."""
    try:
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx
    except Exception as error:  # a wheel that does not load raises more than ImportError
        sys.exit(f"apache-tvm cannot be used: {error}\ninstall tvm_requirements.txt")
    try:
        from tvm.s_tir import meta_schedule
        from tvm.s_tir.meta_schedule import relax_integration
        # Reading the intrinsics takes 20 s. Rules for schedules need them in this process.
        import tvm.s_tir.tensor_intrin  # pylint: disable=unused-import
    except ImportError as error:
        sys.exit(f"this wheel of apache-tvm ({tvm.__version__}) has no MetaSchedule: {error}\n"
                 "install tvm_requirements.txt, whose version has it")
    return tvm, relax, from_onnx, meta_schedule, relax_integration


def build_candidate(mod, target, _params):
    """What MetaSchedule's own builder does, without the intrinsics: its processes start anew in
    each round and would read them for 20 s. Schedules of f32 for a CPU contain none."""
    from tvm.driver import build
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    return build(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(mod), target=target)


def read_model(path, from_onnx, relax):
    """The module with its weights apart, and the shapes and types of its inputs."""
    import onnx

    model = onnx.load(path)
    constants = {t.name for t in model.graph.initializer}
    inputs = []
    for info in model.graph.input:
        if info.name in constants:
            continue
        tensor = info.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim]
        if 0 in shape:
            sys.exit(f"input {info.name} has open dimensions; export it with fixed ones")
        inputs.append((info.name, shape, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)))
    module = from_onnx(model, shape_dict={name: shape for name, shape, _ in inputs})
    return relax.transform.DecomposeOpsForInference()(module), inputs


def lowered(tvm, relax, module, target):
    """Fused loops in place of operators: the tasks, which compile_relax makes in the same way."""
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern(),
              relax.transform.FoldConstant(), relax.transform.FuseOps(),
              relax.transform.FuseTIR()]
    with target, tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(module)


def make_arrays(tvm, inputs):
    import numpy as np

    rng = np.random.default_rng(1)
    arrays = []
    for _, shape, dtype in inputs:
        value = rng.standard_normal(shape) if np.issubdtype(dtype, np.floating) else np.ones(shape)
        arrays.append(tvm.runtime.tensor(value.astype(dtype)))
    return arrays


class BudgetSpent(Exception):
    """Ends the tuning."""


def builder_until(meta_schedule, end, threads):
    """MetaSchedule's builder, which ends the tuning when it is asked for more after `end`."""
    from tvm.ir.utils import derived_object

    local = meta_schedule.builder.LocalBuilder(max_workers=threads, f_build=build_candidate)

    @derived_object
    class Builder(meta_schedule.builder.PyBuilder):
        def build(self, build_inputs):
            if time.perf_counter() > end:
                raise BudgetSpent("BudgetSpent")
            return local.build(build_inputs)

    return Builder()


def trials_of(meta_schedule, begin, trials):
    """A callback that counts the trials of each task, all and those that were timed."""
    from tvm.ir.utils import derived_object

    @derived_object
    class Counter(meta_schedule.measure_callback.PyMeasureCallback):
        def apply(self, task_scheduler, task_id, candidates, builder_results, runner_results):
            timed = sum(1 for r in runner_results if r.run_secs)
            total = trials.setdefault(int(task_id), [0, 0])
            total[0] += len(runner_results)
            total[1] += timed
            print(f"{time.perf_counter() - begin:7.1f} s, task {int(task_id)}: {timed} of "
                  f"{len(runner_results)} candidates were timed", flush=True)

    return Counter()


def tune(meta_schedule, integration, module, target, folder, options):
    """The database of what was measured, the trials and timed trials of each task, and seconds."""
    files = [os.path.join(folder, name) for name in ("workloads.json", "records.json")]
    database = meta_schedule.database.JSONDatabase(*files)
    scheduler = meta_schedule.task_scheduler.GradientBased()
    trials = {}
    begin = time.perf_counter()
    try:
        integration.tune_relax(
            module, {}, target, folder, max_trials_global=1_000_000,
            num_trials_per_iter=options.trials_per_round, seed=1, database=database,
            task_scheduler=scheduler,
            builder=builder_until(meta_schedule, begin + options.seconds, options.threads),
            measure_callbacks=[meta_schedule.measure_callback.AddToDatabase(),
                               meta_schedule.measure_callback.RemoveBuildArtifact(),
                               meta_schedule.measure_callback.UpdateCostModel(),
                               trials_of(meta_schedule, begin, trials)])
    except Exception as error:  # the bindings hand on an exception of another class
        if "BudgetSpent" not in f"{type(error).__name__} {error}":
            raise
        # The results of a round count when the task has its next one, so they are asked for here.
        for task in range(len(scheduler.tasks_)):
            try:
                scheduler.join_running_task(task)
            except Exception:  # the task has no round that waits
                pass
    return database, trials, time.perf_counter() - begin


def time_of(tvm, relax, executable, arrays, seconds):
    machine = relax.VirtualMachine(executable, tvm.cpu())
    answer = machine["main"](*arrays)
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        begin = time.perf_counter()
        machine["main"](*arrays)
        times.append(time.perf_counter() - begin)
    return statistics.median(times), answer


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--mcpu")
    parser.add_argument("--trials-per-round", type=int, default=16)
    parser.add_argument("--work-dir")
    parser.add_argument("--dump")
    options = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = str(options.threads)
    tvm, relax, from_onnx, meta_schedule, integration = import_tvm()
    cpu = options.mcpu or tvm.target.codegen.llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": options.threads})
    module, inputs = read_model(options.model, from_onnx, relax)
    module = lowered(tvm, relax, module, target)
    tasks = len(integration.extract_tasks(module, target))
    arrays = make_arrays(tvm, inputs)
    folder = options.work_dir or tempfile.mkdtemp(prefix="metaschedule-")

    database, trials, seconds = tune(meta_schedule, integration, module, target, folder, options)
    executable = integration.compile_relax(database, module, target, None)
    tuned, answer = time_of(tvm, relax, executable, arrays, 3)
    if options.dump:
        import numpy as np

        first = answer if hasattr(answer, "numpy") else answer[0]
        np.save(options.dump, first.numpy())
    tried = sum(1 for _, timed in trials.values() if timed > 0)
    print(f"{options.model}: {tuned * 1e3:.3f} ms after {sum(t for t, _ in trials.values())} trials "
          f"of {tried} of {tasks} tasks in {seconds:.0f} s, {options.threads} threads, {cpu}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
