#include "network/cut/check_network.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "ir/size_line.h"
#include "ir/sizes.h"
#include "network/cut/loops.h"
#include "network/cut/step_plan.h"

namespace heddle::network {

namespace {

/// Whether the shape of an input that nothing reads gives a size of the network.
bool gives_size(const Tensor& t, const std::vector<Var>& sizes) {
  std::vector<Var> own;
  for (const Expr& e : t.shape()) add_sizes(e, &own);
  return t.op()->is_placeholder() && !own.empty() &&
         std::all_of(own.begin(), own.end(), [&](const Var& v) {
           return std::any_of(sizes.begin(), sizes.end(),
                              [&](const Var& s) { return s.same_as(v); });
         });
}

}  // namespace

std::vector<Tensor> all_args(const Network& network, const ComputeDag& declared) {
  const std::vector<Repeat>& repeats = network.updates().repeats;
  std::vector<Tensor> args = declared.placeholders();
  std::erase_if(args, [&](const Tensor& t) { return is_bound(repeats, t); });
  for (const StateUpdate& u : network.updates()) {
    if (position_of(args, u.state) < 0) args.push_back(u.state);
  }
  for (const Tensor& t : network.outputs()) {
    const bool updates = std::any_of(network.updates().begin(), network.updates().end(),
                                     [&](const StateUpdate& u) { return u.next.same_as(t); });
    if (!updates && !is_of_loop(repeats, t)) args.push_back(t);
  }
  return args;
}

bool give_size(const std::vector<Tensor>& args, const Var& size) {
  return std::any_of(args.begin(), args.end(), [&](const Tensor& t) {
    return std::any_of(t.shape().begin(), t.shape().end(), [&](const Expr& e) {
      const std::optional<SizeLine> s = as_size_line(e);
      return s && s->size.same_as(size);
    });
  });
}

std::vector<int64_t> values_of(const Network& network, const std::vector<SizeValue>& at) {
  std::vector<int64_t> values;
  for (const Var& size : network.sizes()) {
    const auto given = std::find_if(at.begin(), at.end(),
                                    [&](const SizeValue& v) { return v.size.same_as(size); });
    HEDDLE_ICHECK(given != at.end(), "each size has a value");
    values.push_back(given->value);
  }
  return values;
}

bool takes(const Network& network, const std::vector<SizeValue>& at) {
  const std::vector<int64_t> values = values_of(network, at);
  return std::all_of(network.states().begin(), network.states().end(), [&](const StatePlace& p) {
    return !p.row.defined() || view_of(p, 0, network.sizes()).fits(values);
  });
}

void check_tensors(const Network& network, const ComputeDag& declared,
                   const std::vector<Tensor>& args) {
  const std::vector<Tensor> needed = all_args(network, declared);
  const std::vector<Tensor> unread = declared.unread_placeholders();
  for (const StateUpdate& u : network.updates()) {
    if (position_of(args, u.next) < 0) continue;
    throw_user_error("argument '" + u.next.name() + "' lies in the memory of '" + u.state.name() +
                         "', which calls update",
                     {}, "leave it out, and read the input after the call");
  }
  for (const Tensor& t : args) {
    if (t && (position_of(needed, t) >= 0 || position_of(unread, t) >= 0 ||
              gives_size(t, network.sizes())))
      continue;
    throw_user_error(
        "argument '" + (t ? t.name() : "") + "' is neither an input nor an output of the network",
        {}, "pass the placeholders that the outputs read, and the outputs");
  }
  for (const Tensor& t : needed) {
    const auto listed =
        std::count_if(args.begin(), args.end(), [&](const Tensor& a) { return a.same_as(t); });
    if (listed == 0 && t.op()->data() != nullptr) continue;
    if (listed == 0) {
      throw_user_error("'" + t.name() + "' is missing from the arguments", t.op()->where(),
                       "list every input and every output of the network once");
    }
    if (listed > 1) {
      throw_user_error("'" + t.name() + "' is listed twice among the arguments", t.op()->where());
    }
  }
}

void check_schedules(const std::vector<TuneTask>& tasks, const std::vector<Schedule>& schedules) {
  if (schedules.size() != tasks.size()) {
    throw_user_error("the network has " + std::to_string(tasks.size()) + " tasks, but " +
                         std::to_string(schedules.size()) + " schedules were given",
                     {}, "give one a task, in the order of Network::tasks(), or none");
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Target &have = schedules[i].target(), &want = tasks[i].tmpl.target();
    if (have.is_cuda() != want.is_cuda()) {
      throw_user_error("schedule " + std::to_string(i) + " is for '" + to_string(have) +
                           "', and the network for '" + to_string(want) + "'",
                       {}, "make it for the network's target");
    }
    if (schedules[i].dag().direct().structural_hash() == tasks[i].tmpl.dag().structural_hash())
      continue;
    throw_user_error("schedule " + std::to_string(i) + " is not for task '" + tasks[i].name + "'",
                     {}, "give one a task, in the order of Network::tasks()");
  }
}

}  // namespace heddle::network
