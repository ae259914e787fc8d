// Declarations over dimensions, made of declarations at sizes.
#include "heddle/dag/generalize.h"

#include "bind.h"
#include "heddle/dag/compute_dag.h"

namespace heddle::python {
namespace {

class Declarer {
 public:
  Declarer(const std::vector<Dim>& dims, const nb::callable& declare)
      : dims_(dims), declare_(declare) {}

  /// Over the dimensions from number `first` on; those before have sizes in `sizes_`.
  Generalized over(size_t first) {
    if (first == dims_.size()) return at_sizes();
    std::optional<Generalized> largest;
    const Generalized made = generalize(dims_[first], [&](int64_t size) {
      sizes_.push_back(size);
      Generalized here = over(first + 1);
      sizes_.pop_back();
      std::vector<Tensor> outputs = here.outputs;
      if (!largest) largest = std::move(here);
      return outputs;
    });
    Generalized all{made.outputs, {}, largest->at_largest};
    const Instance next{{}, made.tensors};
    for (const auto& [tensor, inner] : largest->tensors)
      all.tensors.emplace_back(tensor, next.of(inner));
    return all;
  }

 private:
  Generalized at_sizes() {
    Generalized here;
    here.outputs = here.at_largest =
        nb::cast<std::vector<Tensor>>(declare_(*nb::tuple(nb::cast(sizes_))));
    for (const Tensor& t : ComputeDag(here.outputs).placeholders()) here.tensors.emplace_back(t, t);
    return here;
  }

  const std::vector<Dim>& dims_;
  const nb::callable& declare_;
  std::vector<int64_t> sizes_;
};

}  // namespace

void bind_generalize(nb::module_& m) {
  m.def(
      "generalize",
      [](const std::vector<Dim>& dims, const nb::callable& declare) {
        const Generalized made = Declarer(dims, declare).over(0);
        return std::pair(made.outputs, made.tensors);
      },
      "dims"_a, "declare"_a,
      "One declaration over `dims` of what declare(size, ...) returns at some sizes: a list of "
      "tensors. Returns the outputs over "
      "the dimensions, and pairs of an input that the first call of `declare` read, whose sizes "
      "are the largest, and its "
      "counterpart.");
}

}  // namespace heddle::python
