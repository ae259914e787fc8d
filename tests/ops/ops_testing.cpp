#include "ops/ops_testing.h"

#include "heddle/codegen/emulator.h"
#include "heddle/driver/build.h"
#include "heddle/lower/lower.h"

namespace heddle {
namespace {

std::vector<Input> read_inputs(const Tensor& result, const std::vector<Input>& inputs) {
  const ComputeDag dag({result});
  std::vector<Input> read;
  for (const Input& in : inputs)
    if (dag.index_of(in.tensor.op()) >= 0) read.push_back(in);
  return read;
}

std::vector<Tensor> arguments(const Tensor& result, const std::vector<Input>& inputs) {
  std::vector<Tensor> args;
  for (const Input& in : inputs) args.push_back(in.tensor);
  args.push_back(result);
  return args;
}

/// The arrays of a call; the last one is the result's, full of a value that no test expects.
std::vector<NDArray> arrays_for(const Tensor& result, const std::vector<Input>& inputs) {
  std::vector<NDArray> arrays;
  for (const Input& in : inputs) arrays.push_back(in.array);
  arrays.push_back(NDArray::full(result.extents(), result.dtype(), 77));
  return arrays;
}

Schedule static_choice(const Tensor& result, const Target& target) {
  AutoSchedulerOptions options;
  options.use_records = false;
  return create_schedule({result}, target, options);
}

NDArray compiled(const Tensor& result, const std::vector<Input>& inputs) {
  const std::vector<NDArray> arrays = arrays_for(result, inputs);
  build(static_choice(result, Target::host()), arguments(result, inputs)).call(arrays);
  return arrays.back();
}

NDArray emulated(const Tensor& result, const std::vector<Input>& inputs) {
  static const Target gpu = Target::parse("cuda -gpu=h200");
  const Schedule schedule = static_choice(result, gpu);
  const std::vector<Tensor> args = arguments(result, inputs);
  const std::vector<NDArray> arrays = arrays_for(result, inputs);
  // A rewritten graph takes them by other dimensions, as they lie.
  std::vector<NDArray> own;
  for (size_t i = 0; i < args.size(); ++i)
    own.push_back(arrays[i].view(schedule.dag().counterpart(args[i]).extents()));
  emulate(lower_gpu(schedule, args), own, {.seed = 7});
  return arrays.back();
}

}  // namespace

WayToRun run_interpreted(const Tensor& result, const std::vector<Input>& inputs) {
  std::vector<TensorValue> values;
  for (const Input& in : inputs) values.push_back({in.tensor, in.array});
  return {"interpreted", interpret({result}, values)[0]};
}

std::vector<WayToRun> run_every_way(const Tensor& result, const std::vector<Input>& inputs) {
  const std::vector<Input> read = read_inputs(result, inputs);
  return {run_interpreted(result, inputs),
          {"compiled", compiled(result, read), 4},
          {"emulated", emulated(result, read), 4}};
}

}  // namespace heddle
