// The class of a stage, and the reason for it.
//
// A reduction is complex where blocking pays: an element of some operand serves several output
// points, and it meets another operand there. Precisely: at least two different reads depend on a
// reduce axis, at least one of them is reused along a spatial axis (no index uses the axis, or
// windows overlap along it), and either a reused one is multiplied with another, or two are reused.
// So matmul, convolution and a matrix of distances are complex. Pooling (one operand), the variance
// (the mean does not depend on the reduce axis) and the sum of exp(x + mask) (the mask is reused
// but only added to what streams by) are simple.
#include <algorithm>
#include <unordered_map>

#include "dag/internal.h"

namespace heddle {

const char* to_string(StageClass c) {
  switch (c) {
    case StageClass::Placeholder: return "placeholder";
    case StageClass::DirectCompute: return "direct compute";
    case StageClass::LocationTunable: return "location-tunable";
    case StageClass::SimpleReduction: return "simple reduction";
    case StageClass::ComplexReduction: return "complex reduction";
  }
  return "?";
}

namespace dag {
namespace {

bool is_reused(const Access& read) { return !read.reuse_axes.empty() || !read.window_axes.empty(); }

std::string axes_text(const std::vector<Axis>& axes, const std::vector<int>& positions) {
  std::vector<std::string> items;
  for (int p : positions) {
    const Axis& a = axes[static_cast<std::size_t>(p)];
    std::string item = a.name();
    if (const int64_t* n = as_int(a->extent)) item += " (extent " + std::to_string(*n) + ")";
    items.push_back(std::move(item));
  }
  return join_words(items);
}

/// "along j (extent 512)", "in overlapping windows along y (extent 56)", or both.
std::string reuse_text(const Access& read, const std::vector<Axis>& axes) {
  std::string text;
  if (!read.reuse_axes.empty()) text = "along " + axes_text(axes, read.reuse_axes);
  if (!read.window_axes.empty()) {
    text += std::string(text.empty() ? "" : " and ") + "in overlapping windows along " +
            axes_text(axes, read.window_axes);
  }
  return text;
}

/// Finds products of operands. Sets of reads are bit masks. The last bit stands for all reads after
/// the 63rd.
class ProductFinder {
 public:
  using Mask = uint64_t;

  /// `operands` are the reads that take part, `reused` those of them whose products count.
  ProductFinder(const std::vector<Access>& reads, std::vector<int> operands, Mask reused)
      : reads_(reads), operands_(std::move(operands)), reused_(reused) {}

  static Mask bit(std::size_t n) { return Mask{1} << std::min<std::size_t>(n, 63); }
  bool found() const { return found_; }

  Mask search(const Expr& e) {
    if (const auto it = masks_.find(e.get()); it != masks_.end()) return it->second;
    Mask mask = 0;
    if (const auto* load = e.as<Load>()) {
      mask = operand_mask(*load);
    } else {
      Mask left = 0, right = 0;
      const auto* b = e.as<Binary>();
      if (b != nullptr) {
        left = search(b->a);
        right = search(b->b);
        mask = left | right;
        // "And" is the product of bools. (x + b) * (x + b) is not a product of x and b.
        const bool product = b->op == BinaryOp::Mul || b->op == BinaryOp::And;
        if (product && left != 0 && right != 0 && (left & right) == 0 && (mask & reused_) != 0) {
          found_ = true;
        }
      } else {
        for_each_child(e, [&](const Expr& child) { mask |= search(child); });
      }
    }
    masks_.emplace(e.get(), mask);
    return mask;
  }

 private:
  Mask operand_mask(const Load& load) const {
    for (std::size_t n = 0; n < operands_.size(); ++n) {
      const Access& read = reads_[static_cast<std::size_t>(operands_[n])];
      const bool same =
          read.buffer == load.buffer &&
          std::equal(read.indices.begin(), read.indices.end(), load.indices.begin(),
                     load.indices.end(), [](const Expr& x, const Expr& y) { return equal(x, y); });
      if (same) return bit(n);
    }
    return 0;
  }

  const std::vector<Access>& reads_;
  std::vector<int> operands_;
  Mask reused_;
  bool found_ = false;
  std::unordered_map<const ExprNode*, Mask> masks_;
};

std::string reduce_axes_text(const Operation& op) {
  std::vector<std::string> names;
  for (const Axis& a : op.reduce_axes()) names.push_back(a.name());
  return join_words(names);
}

/// Why no operand is reused. `fixed` are reused reads that do not vary along the reduction.
std::string no_reuse_text(const Operation& op, const std::vector<Access>& reads,
                          const std::vector<int>& operands, const std::vector<int>& fixed) {
  const auto names_of = [&](const std::vector<int>& which) {
    std::vector<std::string> names;
    for (int r : which) names.push_back(read_name(reads[static_cast<std::size_t>(r)], reads));
    return join_words(names);
  };
  std::string text = "no element of " + names_of(operands) + " serves two output points";
  if (fixed.empty()) return text;
  return text + "; " + names_of(fixed) +
         (fixed.size() == 1 ? " does not vary along " : " do not vary along ") +
         reduce_axes_text(op);
}

void classify_reduction(const Operation& op, StageInfo* info) {
  std::vector<int> operands, reused, fixed;
  ProductFinder::Mask reused_mask = 0;
  for (std::size_t r = 0; r < info->reads.size(); ++r) {
    const Access& read = info->reads[r];
    const bool varies = std::any_of(op.reduce_axes().begin(), op.reduce_axes().end(),
                                    [&](const Axis& a) { return read.depends_on(a); });
    const int index = static_cast<int>(r);
    if (!varies) {
      if (is_reused(read)) fixed.push_back(index);
      continue;
    }
    if (is_reused(read)) {
      reused.push_back(index);
      reused_mask |= ProductFinder::bit(operands.size());
    }
    operands.push_back(index);
  }
  ProductFinder products(info->reads, operands, reused_mask);
  for (const Expr& e : inner_bodies(op)) products.search(e);

  const auto name = [&](int r) {
    return read_name(info->reads[static_cast<std::size_t>(r)], info->reads);
  };
  const auto reuse = [&](int r) {
    return reuse_text(info->reads[static_cast<std::size_t>(r)], op.axes());
  };
  const bool two_operands = operands.size() >= 2 && !reused.empty();
  if (two_operands && (products.found() || reused.size() >= 2)) {
    info->stage_class = StageClass::ComplexReduction;
    info->reason = op.name() + " is a complex reduction: ";
    for (std::size_t n = 0; n < reused.size(); ++n) {
      info->reason += (n == 0 ? "" : ", ") + name(reused[n]) + (n == 0 ? " is reused " : " ") +
                      reuse(reused[n]);
    }
    return;
  }

  info->stage_class = StageClass::SimpleReduction;
  info->reason = op.name() + " is a simple reduction: ";
  if (operands.empty()) {
    info->reason += "it reads nothing that varies along " + reduce_axes_text(op);
  } else if (!reused.empty()) {
    info->reason += name(reused[0]) + " is reused " + reuse(reused[0]) +
                    (operands.size() == 1
                         ? ", but no second operand varies along " + reduce_axes_text(op)
                         : ", but it is multiplied with no other operand, and no other is reused");
  } else {
    info->reason += no_reuse_text(op, info->reads, operands, fixed);
  }
}

}  // namespace

void classify(const Operation& op, const std::vector<Consumer>& consumers, StageInfo* info) {
  if (op.is_placeholder()) {
    info->stage_class = StageClass::Placeholder;
    info->reason = op.name() + (op.is_constant() ? " is a constant input" : " is an input");
  } else if (info->scan) {
    info->stage_class = StageClass::SimpleReduction;
    info->reason = op.name() + " is a simple reduction: a scan along " +
                   op.axes()[static_cast<std::size_t>(info->scan->axis)].name();
  } else if (op.is_reduction()) {
    classify_reduction(op, info);
  } else if (info->is_output) {
    info->stage_class = StageClass::DirectCompute;
    info->reason = op.name() + " is a direct compute: an output without a reduction";
  } else {
    info->stage_class = StageClass::LocationTunable;
    std::vector<std::string> readers;
    for (const Consumer& c : consumers) {
      readers.push_back(c.name + " (" + to_string(c.pattern) + ")");
    }
    info->reason = op.name() + " is location-tunable: no reduction, not an output, read by " +
                   join_words(readers);
  }
}

}  // namespace dag
}  // namespace heddle
