#include "dsl/empty.h"

#include <algorithm>
#include <unordered_map>

namespace heddle {
namespace {

bool has_no_elements(const Buffer& b) {
  return std::any_of(b->shape.begin(), b->shape.end(), [](const Expr& e) {
    const int64_t* extent = as_int(e);
    return extent && *extent == 0;
  });
}

void add_distinct(std::vector<Tensor>* list, Tensor t) {
  const auto same = [&](const Tensor& known) { return known.same_as(t); };
  if (t && std::none_of(list->begin(), list->end(), same)) list->push_back(std::move(t));
}

/// Nodes that bodies share are replaced once, and shared afterwards.
class EmptyReads {
 public:
  explicit EmptyReads(std::vector<Tensor>* unread) : unread_(unread) {}

  Expr replace(const Expr& e) {
    if (const auto it = known_.find(e.get()); it != known_.end()) return it->second;
    Expr result;
    if (const Load* load = e.as<Load>(); load && has_no_elements(load->buffer)) {
      add_distinct(unread_, tensor_of(load->buffer));
      result = make_const(load->dtype, 0);
    } else {
      result = map_children(e, [&](const Expr& child) { return replace(child); });
    }
    return known_.emplace(e.get(), std::move(result)).first->second;
  }

 private:
  std::vector<Tensor>* unread_;
  std::unordered_map<const ExprNode*, Expr> known_;
};

}  // namespace

bool is_empty(const std::vector<Axis>& axes) {
  return std::any_of(axes.begin(), axes.end(),
                     [](const Axis& a) { return is_const(a->extent, 0); });
}

std::vector<Tensor> tensors_read(const std::vector<Expr>& bodies) {
  std::vector<Tensor> result;
  for (const Expr& body : bodies) {
    visit(body, [&](const Expr& e) {
      if (const Load* load = e.as<Load>()) add_distinct(&result, tensor_of(load->buffer));
    });
    // The components of a tuple reduction share all their sources.
    if (body.kind() == ExprKind::Reduce) break;
  }
  return result;
}

std::vector<Expr> unevaluated(const std::vector<Expr>& bodies, bool no_elements) {
  std::vector<Expr> result;
  for (const Expr& body : bodies) {
    const Reduce* reduce = no_elements ? nullptr : body.as<Reduce>();
    result.push_back(
        reduce ? cast(body.dtype(), reduce->combiner->identity[static_cast<size_t>(reduce->index)])
               : make_const(body.dtype(), 0));
  }
  return result;
}

std::vector<Expr> without_empty_reads(const std::vector<Expr>& bodies,
                                      std::vector<Tensor>* unread) {
  const std::vector<Tensor> read = tensors_read(bodies);
  const bool any = std::any_of(read.begin(), read.end(),
                               [](const Tensor& t) { return has_no_elements(t.buffer()); });
  if (!any) return bodies;
  EmptyReads reads(unread);
  std::vector<Expr> result;
  for (const Expr& body : bodies) result.push_back(reads.replace(body));
  return result;
}

}  // namespace heddle
