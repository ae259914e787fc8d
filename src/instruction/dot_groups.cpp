#include "instruction/dot_groups.h"

namespace heddle::instructions {
namespace {

// Either the groups of all lanes are adjacent in memory, or all lanes have the same group.
bool in_groups(const NarrowFactor& f, int size) { return f.stride == 0 || f.stride == size; }

class Finder {
 public:
  Finder(const DotRules& rules, int lanes, std::string* why)
      : rules_(rules), lanes_(lanes), why_(*why) {}

  std::optional<DotSum> run(const Expr& sum) {
    std::vector<Expr> terms;
    terms_of(sum, terms);
    if (terms.size() > kMostTerms) return fail("it has thousands of terms");
    DotSum out;
    for (const Expr& term : terms) {
      std::optional<NarrowTerm> p = as_narrow_term(term);
      if (p && rules_.in_memory(p->a.buffer) && rules_.in_memory(p->b.buffer)) {
        products_.push_back(*p);
      } else {
        out.rest.push_back(term);
      }
    }
    if (products_.empty()) return fail("no term is a product of narrow types in memory");
    why_ = "no instruction adds up groups of these types";
    for (const int size : {4, 2}) {
      for (NarrowTerm& first : products_) take_group(first, size, &out.groups);
    }
    if (out.groups.empty()) return std::nullopt;
    for (const NarrowTerm& p : products_) {
      if (!p.used) out.rest.push_back(p.term);
    }
    return out;
  }

 private:
  std::nullopt_t fail(const std::string& why) {
    why_ = why;
    return std::nullopt;
  }

  // Takes the group that begins with `first`, where there is one.
  void take_group(NarrowTerm& first, int size, std::vector<DotGroup>* out) {
    if (first.used || !rules_.has_dot(first.a.type, first.b.type, size)) return;
    if (!in_groups(first.a, size) || !in_groups(first.b, size)) {
      why_ = "groups of lanes do not lie side by side in '" + first.b.buffer->name + "'";
      return;
    }
    std::vector<NarrowTerm*> members{&first};
    for (NarrowTerm& p : products_) {
      const int at = static_cast<int>(members.size());
      if (at == size) break;
      if (!p.used && follows(first.a, p.a, at, rules_.ranges) &&
          follows(first.b, p.b, at, rules_.ranges))
        members.push_back(&p);
    }
    const int found = static_cast<int>(members.size());
    if (found < size && !may_be_filled_up(first.a, first.b, size)) {
      why_ = "a group has " + std::to_string(found) + " of " + std::to_string(size) + " members";
      return;
    }
    for (NarrowTerm* p : members) p->used = true;
    out->push_back({first.a, first.b, size, found});
  }

  // Whether the incomplete last group of a sum may be computed as a full one, with products with zero
  // after its members. Copies that are stored in full groups have room for it.
  bool may_be_filled_up(const NarrowFactor& a, const NarrowFactor& b, int size) const {
    // The unused elements may be NaN, and zero times NaN is NaN.
    if (b.buffer->dtype == bf16) return false;
    return a.stride == 0 && b.stride == size &&
           has_elements(b, int64_t{size} * lanes_, rules_.ranges);
  }

  const DotRules& rules_;
  const int lanes_;
  std::string& why_;
  std::vector<NarrowTerm> products_;
};

}  // namespace

std::optional<DotSum> find_dot_groups(const Expr& sum, const DotRules& rules, std::string* why) {
  return Finder(rules, sum.dtype().lanes, why).run(sum);
}

bool has_elements(const NarrowFactor& f, int64_t n, const Ranges& ranges) {
  int64_t total = 1;
  for (const Expr& extent : f.buffer->shape) {
    const int64_t* value = as_int(extent);
    if (!value) return false;
    total *= *value;
  }
  return range_of(f.base, ranges).max <= total - n;
}

}  // namespace heddle::instructions
