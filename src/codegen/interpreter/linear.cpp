// Sums of variables and nodes, as indices are.
#include <algorithm>

#include "codegen/interpreter/program.h"

namespace heddle::interp {
namespace {

std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

Linear Linear::of(const Slot* slot, std::int64_t coefficient) {
  Linear sum;
  sum.add_slot({slot, coefficient});
  return sum;
}

Linear Linear::of(Node* node) {
  Linear sum;
  sum.nodes_.push_back({node, 1});
  return sum;
}

void Linear::add_slot(const SlotTerm& term) {
  for (int t = 0; t < count_; ++t) {
    if (first_[t].slot == term.slot) {
      first_[t].coefficient = plus(first_[t].coefficient, term.coefficient);
      return;
    }
  }
  if (count_ < kInline) {
    first_[count_++] = term;
    return;
  }
  for (SlotTerm& t : more_) {
    if (t.slot == term.slot) {
      t.coefficient = plus(t.coefficient, term.coefficient);
      return;
    }
  }
  more_.push_back(term);
}

void Linear::add(const Linear& other, std::int64_t factor) {
  constant_ = plus(constant_, times(other.constant_, factor));
  for (int t = 0; t < other.count_; ++t) {
    add_slot({other.first_[t].slot, times(other.first_[t].coefficient, factor)});
  }
  for (const SlotTerm& t : other.more_) add_slot({t.slot, times(t.coefficient, factor)});
  // A term with a node is kept even at coefficient 0, because evaluating it may report an error.
  for (const NodeTerm& t : other.nodes_) {
    const auto same = std::find_if(nodes_.begin(), nodes_.end(),
                                   [&](const NodeTerm& n) { return n.node == t.node; });
    if (same == nodes_.end()) {
      nodes_.push_back({t.node, times(t.coefficient, factor)});
    } else {
      same->coefficient = plus(same->coefficient, times(t.coefficient, factor));
    }
  }
}

std::uint64_t Linear::slow_terms() const {
  std::int64_t sum = 0;
  for (const SlotTerm& t : more_) sum = plus(sum, times(t.slot->i, t.coefficient));
  for (const NodeTerm& t : nodes_) sum = plus(sum, times(t.node->int_value(), t.coefficient));
  return static_cast<std::uint64_t>(sum);
}

const Slot* Linear::single_slot() const {
  const bool single = constant_ == 0 && count_ == 1 && more_.empty() && nodes_.empty() &&
                      first_[0].coefficient == 1;
  return single ? first_[0].slot : nullptr;
}

Node* Linear::single_node() const {
  const bool single =
      constant_ == 0 && count_ == 0 && nodes_.size() == 1 && nodes_[0].coefficient == 1;
  return single ? nodes_[0].node : nullptr;
}

}  // namespace heddle::interp
