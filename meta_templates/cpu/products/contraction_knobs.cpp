#include "cpu/products/contraction_knobs.h"

#include <algorithm>
#include <utility>

#include "cpu/location.h"
#include "cpu/products/register_tile.h"

namespace heddle::meta::cpu {
namespace {

class Questions {
 public:
  Questions(TemplateBuilder& t, const Contraction& c, const ContractionProblem& p,
            const Choice& choice)
      : t_(t), c_(c), sh_(c.shape), p_(p), choice_(choice) {}

  ContractionKnobs ask() {
    if (p_.attached)
      k_.location = ask_location(t_, c_.group, "its rows are used while they are in cache");
    channels();
    tile();
    unroll();
    dot();
    blocks();
    if (p_.scattered) k_.stage_results = t_.choice("stage_results", choice_);
    reduction();
    keep_groups_whole();
    copy_of_vectors();
    copy_of_broadcasts();
    fetch_of_packed();
    keep_sources_at_root();
    widening();
    return k_;
  }

 private:
  void channels() {
    if (!c_.channels_in_planes) return;
    k_.copies.channels_last = t_.choice("channels_last", choice_);
    t_.keep_at_root(sh_.row->producer, k_.copies.channels_last, 1);
  }

  void tile() {
    std::vector<int64_t> rows{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14}, vectors{1, 2, 3, 4};
    // A single row reuses nothing, so only longer runs of the vector operand can gain.
    if (p_.rows == 1) vectors.insert(vectors.end(), {6, 8, 12});
    std::erase_if(rows, [&](int64_t r) { return r > p_.rows; });
    std::erase_if(vectors,
                  [&](int64_t v) { return v > ceil_div(p_.cols, p_.lanes) || !p_.may_have(v); });
    k_.tile_rows = t_.knob("tile_rows", rows, choice_);
    if (p_.cols_in_blocks) {
      k_.tile_cols = p_.lanes;
      k_.tile_blocks = t_.knob("tile_blocks", vectors, choice_);
      must_fit_registers(k_.tile_blocks, 1);
      return;
    }
    std::vector<int64_t> cols;
    for (int64_t v : vectors) cols.push_back(v * p_.lanes);
    k_.tile_cols = t_.knob("tile_cols", cols, choice_);
    must_fit_registers(k_.tile_cols, p_.lanes);
  }

  // `cols` counts units of which `a_vector` are a vector.
  void must_fit_registers(Param cols, int64_t a_vector) {
    t_.require("the register tile must fit the vector registers",
               [=, target = t_.target(), rows = k_.tile_rows](const auto& value) {
                 return fits_registers(target, {value(rows), ceil_div(value(cols), a_vector)});
               });
  }

  void unroll() {
    const int64_t chosen = t_.chosen(k_.copies.channels_last);
    const int64_t steps = (chosen != 0 ? p_.channel_window : p_.window).extent;
    std::vector<int64_t> values{1, 2, 4};
    // A short window may be unrolled completely, because its loop would end with a misprediction
    // after a few iterations.
    if (steps <= kShortWindow) values.push_back(steps);
    k_.unroll_k = t_.knob("unroll_k", values, choice_);
  }

  void dot() {
    if (c_.dot_sizes.size() == 1) return;
    k_.dot = t_.knob("dot", c_.dot_sizes, choice_);
    for (int64_t size : c_.dot_sizes) {
      if (size == 1) continue;
      t_.keep_at_root(sh_.vector->producer, k_.dot, size);
      t_.keep_at_root(sh_.row->producer, k_.dot, size);
    }
  }

  void blocks() {
    const int64_t tile_rows = t_.chosen(k_.tile_rows);
    const int64_t row_tiles = ceil_div(p_.rows, tile_rows);
    const int64_t tile_cols =
        p_.cols_in_blocks ? t_.chosen(k_.tile_blocks) * p_.lanes : t_.chosen(k_.tile_cols);
    const int64_t col_tiles = ceil_div(p_.cols, tile_cols);
    if (p_.hosts_chain) {
      std::vector<int64_t> values{p_.rows};
      for (int64_t r = tile_rows; r < p_.rows; r *= 2) values.push_back(r);
      k_.chain_block_rows = ask("chain_block_rows", "chain_rows", std::move(values));
      k_.block_has_batch = t_.chosen(k_.chain_block_rows) == p_.rows;
    } else {
      k_.row_block_tiles = ask_split("row_block_tiles", "row_block", row_tiles);
    }
    k_.col_block_tiles = ask_split("col_block_tiles", "col_block", col_tiles);
    k_.blocks_vector_rows = p_.images.hosted && p_.images.by_channels;
    if (k_.blocks_vector_rows)
      k_.other_block_rows = ask_split("other_block_rows", "other_block", p_.images.rows);
    else if (p_.has_other_rows)
      k_.other_block_rows = ask_split("other_block_rows", "other_block", p_.last_other_rows);
  }

  void reduction() {
    const int64_t k = p_.longest_reduction, cores = p_.target.cores;
    if (can_block_k(p_)) {
      k_.reductions.push_back(kKBlocked);
      k_.k_block = t_.split_knob("k_block", k, k, choice_);
    }
    if (can_split_k(p_)) {
      k_.reductions.push_back(kSplitK);
      const std::vector<int64_t> parts{whole_groups(p_, ceil_div(k, cores)),
                                       whole_groups(p_, ceil_div(k, 2 * cores))};
      k_.k_part = t_.knob("k_part", parts, choice_);
    }
    k_.reduction = t_.kind("reduction", choice_, k_.reductions);
    t_.alias(k_.reduction, "mode");
  }

  // Requires that a cut of the reduction never cuts a group of products.
  void keep_groups_whole() {
    if (k_.dot.is_const() || c_.longest != c_.grouped->axis) return;
    const int64_t k = p_.longest_reduction;
    for (const auto& [reduction, length] :
         {std::pair{kKBlocked, k_.k_block}, std::pair{kSplitK, k_.k_part}}) {
      if (!k_.offers(reduction)) continue;
      t_.require("parts of the reduction must be whole groups",
                 [=, dot = k_.dot, which = k_.reduction, reduction = reduction,
                  length = length](const auto& value) {
                   return value(which) != reduction || value(length) >= k ||
                          value(length) % value(dot) == 0;
                 });
    }
  }

  void copy_of_vectors() {
    if (!p_.vector.packable || !p_.row.exists) return;  // no element is used again
    std::vector<int64_t> forms{kAsItLies, kPackWhole};
    if (!p_.vector.constant) forms.push_back(kPackPanels);
    k_.copies.pack_vectors =
        t_.kind("pack_vectors", {"as_it_lies", "whole", "panels"}, choice_, forms);
    constexpr int64_t kWideEnough = 64;  // columns from which on prefetching pays
    if (!p_.vector.constant && c_.is_stored(*sh_.vector) && p_.cols >= kWideEnough)
      k_.copies.prefetch_panels = t_.knob("prefetch_panels", {0, 16, 32, 64}, choice_);
  }

  void fetch_of_packed() {
    if (!offers_prefetch_of_packed(p_)) return;
    std::vector<int64_t> steps{0};
    for (int64_t n : kStepsFetchedAhead) {
      if (n <= p_.common_reduction) steps.push_back(n);
    }
    k_.copies.prefetch_packed = t_.knob("prefetch_packed", steps, choice_);
  }

  void copy_of_broadcasts() {
    if (!p_.row.packable) return;
    std::vector<int64_t> forms{kBroadcastAsItLies, kPackTiles};
    if (p_.halves()) forms.push_back(kWidenInPlace);
    k_.copies.pack_broadcasts =
        t_.kind("pack_broadcasts", {"as_it_lies", "tiles", "widened"}, choice_, forms);
  }

  // The producer of a packed operand is not computed within the blocks.
  void keep_sources_at_root() {
    const auto keep = [&](const Access* a, Param pack, std::initializer_list<int64_t> forms) {
      if (pack.is_const()) return;
      for (int64_t form : forms) t_.keep_at_root(a->producer, pack, form);
    };
    keep(sh_.vector, k_.copies.pack_vectors, {kPackWhole, kPackPanels});
    keep(sh_.row, k_.copies.pack_broadcasts, {kPackTiles});
    if (p_.halves()) keep(sh_.row, k_.copies.pack_broadcasts, {kWidenInPlace});
  }

  // Asks for conversions: 16-bit floats in their copies, and bytes in copies of pairs for one
  // instruction.
  void widening() {
    if (!p_.narrow) return;
    const auto ask = [&](const char* name, const ContractionProblem::Operand& a, Param pack) {
      const bool bytes_of_pairs = a.exists && a.element_bytes == 1 && c_.has_dot(2);
      if (p_.halves() ? pack.is_const() : !bytes_of_pairs) return Param(0);
      return t_.choice(name, choice_);
    };
    k_.copies.widen_vectors = ask("widen_vectors", p_.vector, k_.copies.pack_vectors);
    k_.copies.widen_broadcasts = ask("widen_broadcasts", p_.row, k_.copies.pack_broadcasts);
  }

  // A knob that had another name in older records.
  Param ask(const char* name, const char* old_name, std::vector<int64_t> values) {
    const Param knob = t_.knob(name, std::move(values), choice_);
    t_.alias(knob, old_name);
    return knob;
  }
  Param ask_split(const char* name, const char* old_name, int64_t extent) {
    const Param knob = t_.split_knob(name, extent, extent, choice_);
    t_.alias(knob, old_name);
    return knob;
  }

  TemplateBuilder& t_;
  const Contraction& c_;
  const ContractionShape& sh_;
  const ContractionProblem& p_;
  const Choice& choice_;
  ContractionKnobs k_;
};

}  // namespace

ContractionKnobs ask_contraction_knobs(TemplateBuilder& t, const Contraction& c,
                                       const ContractionProblem& p, const Choice& choice) {
  return Questions(t, c, p, choice).ask();
}

}  // namespace heddle::meta::cpu
