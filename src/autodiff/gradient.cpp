#include "heddle/autodiff/gradient.h"

#include <algorithm>

#include "autodiff/backward.h"
#include "dsl/validate.h"

namespace heddle {
namespace {

void check_float(const char* what, const Tensor& t, const Where& where) {
  if (!t)
    throw_user_error(std::string("gradient is given ") + what + " that was never assigned", where);
  if (!t.dtype().is_float())
    throw_user_error("'" + t.name() + "' of type " + to_string(t.dtype()) + " is " + what +
                         " of a gradient, and only floats have one",
                     where, "convert it: ops::cast(" + t.name() + ", f32)");
}

void check_head(const Tensor& output, const Tensor& head, const Where& where) {
  check_float("a head", head, where);
  if (!autodiff::same_form(head, output))
    throw_user_error("the head '" + head.name() + "' is " + autodiff::form_text(head) +
                         ", and its output '" + output.name() + "' is " +
                         autodiff::form_text(output),
                     where, "give a head of the type and shape of its output");
}

bool has_one_element(const Tensor& t) {
  return std::ranges::all_of(t.shape(), [](const Expr& e) { return is_const(e, 1); });
}

std::vector<Tensor> heads_for(const std::vector<Tensor>& outputs, const std::vector<Tensor>& given,
                              const Where& where) {
  if (!given.empty() && given.size() != outputs.size())
    throw_user_error("gradient is given " + std::to_string(given.size()) + " heads for " +
                         std::to_string(outputs.size()) + " outputs",
                     where, "give one head an output, or none where each has one element");
  std::vector<Tensor> heads;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& y = outputs[i];
    if (!given.empty()) {
      check_head(y, given[i], where);
      heads.push_back(given[i]);
      continue;
    }
    if (!has_one_element(y))
      throw_user_error("the output '" + y.name() + "' of a gradient has shape " +
                           shape_text(y.shape()) + " and no head",
                       where, "reduce it to one element, or give a head of its shape");
    heads.push_back(compute(
        y.shape(), [&](const std::vector<Axis>&) { return make_const(y.dtype(), 1); },
        y.name() + ".head", "gradient", where));
  }
  return heads;
}

}  // namespace

std::vector<Tensor> gradient(const std::vector<Tensor>& outputs, const std::vector<Tensor>& wrt,
                             const std::vector<Tensor>& heads, const GradientOptions& options,
                             Where where) {
  if (outputs.empty()) throw_user_error("gradient is given no outputs", where);
  for (const Tensor& t : outputs) check_float("an output", t, where);
  for (const Tensor& t : wrt) check_float("the variable", t, where);
  for (const CustomGradient& c : options.custom) {
    check_float("the output of a custom gradient", c.output, where);
    for (const Tensor& t : c.inputs) check_float("an input of a custom gradient", t, where);
  }
  autodiff::Backward backward(outputs, wrt, options, where);
  const std::vector<Tensor> given = heads_for(outputs, heads, where);
  for (size_t i = 0; i < outputs.size(); ++i) backward.add_head(outputs[i], given[i]);
  for (const Tensor& t : wrt) {
    if (options.unconnected == Unconnected::Zero || backward.reaches(t)) continue;
    throw_user_error("no output of the gradient depends on '" + t.name() + "'", where,
                     "leave it out, or pass Unconnected::Zero for a gradient of zeros");
  }
  backward.run();
  std::vector<Tensor> results;
  for (const Tensor& t : wrt) results.push_back(backward.result(t));
  return results;
}

Tensor gradient(const Tensor& output, const Tensor& wrt, Where where) {
  return gradient(std::vector{output}, {wrt}, {}, {}, where)[0];
}

}  // namespace heddle
