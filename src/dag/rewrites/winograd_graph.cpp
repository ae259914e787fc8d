#include "dag/rewrites/winograd_graph.h"

#include <utility>

#include "dag/rewrites/rewrite_parts.h"
#include "dag/rewrites/tf32_parts.h"
#include "dag/rewrites/winograd_transforms.h"

namespace heddle::winograd {
namespace {

using dag::Convolution;

class Rewriter {
 public:
  Rewriter(const Operation& op, const Convolution& conv, int64_t m, Products products)
      : op_(op),
        conv_(conv),
        units_(products == Products::Units),
        m_(m),
        a_(m + 2),
        height_(axis(conv.y).extent()),
        width_(axis(conv.x).extent()),
        rows_((height_ + m - 1) / m),
        cols_((width_ + m - 1) / m),
        where_(op.where()) {
    for (int b : conv_.batch) images_ *= axis(b).extent();
    tiles_ = images_ * rows_ * cols_;
    channels_ = conv_.channels();
    if (conv_.k_in_block >= 0) k_block_ = axis(conv_.k_in_block).extent();
    results_ = axis(conv_.k).extent() * k_block_;
    type_ = tile_type_ = op.output(0).dtype();
    if (units_) tile_type_ = conv_.image->tensor.dtype();
    in_parts_ = units_ && tile_type_ == f32;
    // The transform makes elements up to 4 (m = 2) or 20 (m = 4) times as large.
    if (units_ && tile_type_ == f16) tile_scale_ = m == 2 ? 0x1p2 : 0x1p5;
    depth_ = in_parts_ ? tf32::depth_of_parts(channels_) : channels_;
  }

  Tensor rewrite() {
    const Tensor v = image_tiles(), u = weights();
    const Axis c = reduce_axis(depth_, "rc", where_);
    const auto factor = [&](const Expr& e) { return in_parts_ ? round_tf32(e) : cast(type_, e); };
    const Tensor products = compute(
        {a_, a_, tiles_, results_},
        [&](Axis i, Axis j, Axis p, Axis k) {
          const Expr weight = units_ ? u(i, j, k, c) : u(i, j, c, k);
          return sum_in(type_, factor(v(i, j, p, c)) * factor(weight), {c});
        },
        name("products"), "winograd", where_);
    return results(products);
  }

 private:
  const Axis& axis(int i) const { return op_.axes()[static_cast<std::size_t>(i)]; }
  std::string name(const std::string& what) const { return op_.name() + "_" + what; }

  /// The element of the image at (i, j) of tile p.
  Expr tile_element(const Tensor& image, bool padded, const Expr& p, int64_t i, const Axis& j,
                    const Expr& c) const {
    const Expr row = floordiv(p, cols_);
    const Expr y = floormod(row, rows_) * m_ + i, x = floormod(p, cols_) * m_ + j;
    Expr rest = floordiv(row, rows_);
    std::vector<Expr> batch(conv_.batch.size());
    for (std::size_t b = batch.size(); b-- > 0;) {
      const int64_t n = axis(conv_.batch[b]).extent();
      batch[b] = b == 0 ? rest : floormod(rest, n);
      if (b > 0) rest = floordiv(rest, n);
    }
    if (padded) {
      batch.insert(batch.end(), {y, x, c});
      return image.at(batch);
    }
    return read_image(batch, y, x, c);
  }

  Expr read_image(const std::vector<Expr>& batch, const Expr& y, const Expr& x,
                  const Expr& c) const {
    std::vector<Expr> at(conv_.image->indices.size());
    for (std::size_t b = 0; b < batch.size(); ++b)
      at[static_cast<std::size_t>(conv_.image_batch[b])] = batch[b];
    at[static_cast<std::size_t>(conv_.image_y)] = y + conv_.offset_y;
    at[static_cast<std::size_t>(conv_.image_x)] = x + conv_.offset_x;
    set_channel(at, conv_.image_c, conv_.image_c_in_block, conv_.c_block(), c);
    return conv_.image->tensor.at(at);
  }

  /// Sets the indices of a channel, which may be those of a block and of a place in it.
  static void set_channel(std::vector<Expr>& at, int dim, int dim_in_block, int64_t block,
                          const Expr& channel) {
    const bool blocks = dim_in_block >= 0;
    at[static_cast<std::size_t>(dim)] = blocks ? floordiv(channel, block) : channel;
    if (blocks) at[static_cast<std::size_t>(dim_in_block)] = floormod(channel, block);
  }

  /// The image with channels last, padded to the size of the tiles. Returns the image itself where
  /// that changes nothing.
  Tensor padded_image(bool* made) const {
    const Tensor& image = conv_.image->tensor;
    const int64_t y = rows_ * m_ + 2, x = cols_ * m_ + 2;
    const int64_t have_y = image.extent(conv_.image_y) - conv_.offset_y,
                  have_x = image.extent(conv_.image_x) - conv_.offset_x;
    const bool vectors = conv_.image_c_in_block >= 0 || conv_.image_c + 1 == image.rank();
    *made = y > have_y || x > have_x || !vectors;
    if (!*made) return image;
    Shape shape;
    for (int b : conv_.batch) shape.push_back(axis(b).extent());
    for (int64_t e : {y, x, channels_}) shape.push_back(e);
    return compute(
        shape,
        [&](const std::vector<Axis>& i) {
          const std::size_t n = i.size();
          const std::vector<Expr> batch(i.begin(), i.end() - 3);
          const Expr element = read_image(batch, i[n - 3], i[n - 2], i[n - 1]);
          Expr inside;
          if (y > have_y) inside = i[n - 3] < Expr(have_y);
          if (x > have_x) {
            const Expr in_row = i[n - 2] < Expr(have_x);
            inside = inside.defined() ? Expr(logical_and(inside, in_row)) : in_row;
          }
          return inside.defined() ? select(inside, element, make_const(image.dtype(), 0)) : element;
        },
        name("image"), "winograd", where_);
  }

  // A tile as it is multiplied, of place `q` of the depth. `at(c)` is its element of channel `c`.
  template <class F>
  Expr stored(const Axis& q, tf32::Side side, F at) const {
    if (!in_parts_) return cast(tile_type_, at(q));
    const Expr c = tf32::term_at(q), part = tf32::part_at(q, at(c), side);
    return channels_ % tf32::kRun == 0 ? part
                                       : select(c < Expr(channels_), part, make_const(f32, 0));
  }

  Tensor image_tiles() const {
    bool padded = false;
    const Tensor image = padded_image(&padded);
    const Tensor rows = compute(
        {a_, a_, tiles_, channels_},
        [&](Axis i, Axis j, Axis p, Axis c) {
          return choose(i, image_transform(m_, terms(a_, [&](int64_t t) {
                                             return cast(type_,
                                                         tile_element(image, padded, p, t, j, c));
                                           })));
        },
        name("rows"), "winograd", where_);
    return compute(
        {a_, a_, tiles_, depth_},
        [&](Axis i, Axis j, Axis p, Axis q) {
          return stored(q, tf32::Side::Left, [&](const Expr& c) {
            const Terms of_tile =
                image_transform(m_, terms(a_, [&](int64_t t) { return rows(i, t, p, c); }));
            return scaled(choose(j, of_tile), 1 / tile_scale_);
          });
        },
        name("tiles"), "winograd", where_);
  }

  /// `e` times `by`, a power of two.
  static Expr scaled(const Expr& e, double by) {
    return by == 1 ? e : e * make_const(e.dtype(), by);
  }

  Expr weight_element(int64_t r, int64_t s, const Expr& c, const Axis& k) const {
    std::vector<Expr> at(conv_.weight->indices.size());
    at[static_cast<std::size_t>(conv_.weight_r)] = conv_.weight_at_r(r);
    at[static_cast<std::size_t>(conv_.weight_s)] = conv_.weight_at_s(s);
    set_channel(at, conv_.weight_c, conv_.weight_c_in_block, conv_.c_block(), c);
    set_channel(at, conv_.weight_k, conv_.weight_k_in_block, k_block_, k);
    return cast(type_, conv_.weight->tensor.at(at));
  }

  Expr weight_at(const Axis& i, const Axis& j, const Expr& c, const Axis& k) const {
    const Terms columns = terms(3, [&](int64_t s) {
      return choose(
          i, weight_transform(m_, terms(3, [&](int64_t r) { return weight_element(r, s, c, k); })));
    });
    return choose(j, weight_transform(m_, columns));
  }

  Tensor weights() const {
    if (!units_) {
      return compute(
          {a_, a_, channels_, results_},
          [&](Axis i, Axis j, Axis c, Axis k) { return weight_at(i, j, c, k); }, name("weights"),
          "winograd", where_);
    }
    return compute(
        {a_, a_, results_, depth_},
        [&](Axis i, Axis j, Axis k, Axis q) {
          return stored(q, tf32::Side::Right, [&](const Expr& c) { return weight_at(i, j, c, k); });
        },
        name("weights"), "winograd", where_);
  }

  Tensor results(const Tensor& products) const {
    const Tensor rows = compute(
        {m_, a_, tiles_, results_},
        [&](Axis i, Axis j, Axis p, Axis k) {
          return choose(
              i, result_transform(m_, terms(a_, [&](int64_t t) { return products(t, j, p, k); })));
        },
        name("sums"), "winograd", where_);
    return compute(
        op_.output(0).shape(),
        [&](const std::vector<Axis>& i) {
          const auto at = [&](int d) -> const Axis& { return i[static_cast<std::size_t>(d)]; };
          Expr p(0);
          for (int b : conv_.batch) p = p * axis(b).extent() + at(b);
          p = (p * rows_ + floordiv(at(conv_.y), m_)) * cols_ + floordiv(at(conv_.x), m_);
          Expr k(at(conv_.k));
          if (conv_.k_in_block >= 0) k = k * k_block_ + at(conv_.k_in_block);
          const Terms of_tile = result_transform(
              m_, terms(a_, [&](int64_t t) { return rows(floormod(at(conv_.y), m_), t, p, k); }));
          return scaled(choose(floormod(at(conv_.x), m_), of_tile), tile_scale_);
        },
        op_.name(), op_.tag(), where_);
  }

  const Operation& op_;
  const Convolution& conv_;
  const bool units_;
  bool in_parts_ = false;
  double tile_scale_ = 1;  ///< by which tiles that are stored are smaller
  int64_t m_, a_, height_, width_, rows_, cols_, images_ = 1, tiles_ = 0, channels_ = 0,
                                                 results_ = 0, k_block_ = 1, depth_ = 0;
  DataType type_, tile_type_;
  Where where_;
};

}  // namespace

Tensor graph_of(const Operation& op, const Convolution& conv, int64_t m, Products products) {
  return Rewriter(op, conv, m, products).rewrite();
}

}  // namespace heddle::winograd
