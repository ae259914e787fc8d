// Products of shorter numbers: what the rewritten graph computes against what was declared.
#include <algorithm>

#include "environment.h"
#include "heddle/lower/lower.h"
#include "heddle/support/rng.h"
#include "network/drawn_convolution.h"
#include "network/network_testing.h"
#include "network/passes/graph_pass.h"
#include "network/passes/product_places.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// A network of one product, on numbers up to 1.
class Drawer {
 public:
  explicit Drawer(Rng& rng, DataType type = f32) : rng_(rng), type_(type) {}

  std::vector<Tensor> run() {
    Tensor y;
    switch (pick(0, 3)) {
      case 0: y = convolution(); break;
      case 1: y = ops::dense(input({pick(1, 5), 12}), weights({pick(2, 9), 12})); break;
      case 2:
        y = ops::matmul(ops::transpose(input({12, pick(1, 5)}), {1, 0}), weights({12, 7}));
        break;
      default:
        y = ops::matmul(ops::reshape(input({pick(1, 3), 3, 4}), {-1, 4}), weights({4, pick(2, 6)}));
    }
    if (rng_.chance(0.5)) y = ops::relu(y);
    return {y};
  }

 private:
  int64_t pick(int64_t lo, int64_t hi) { return rng_.uniform_int(lo, hi); }

  Tensor input(Shape shape) {
    const Tensor x = placeholder(std::move(shape), type_, "x");
    return rng_.chance(0.5) ? x : ops::tanh(x);
  }

  Tensor weights(Shape shape) { return constant_placeholder(std::move(shape), type_, "weights"); }

  Tensor convolution() {
    const DrawnConvolution drawn = draw_convolution(rng_);
    return ops::conv2d(input(drawn.image), weights(drawn.weights), drawn.how);
  }

  Rng& rng_;
  const DataType type_;
};

/// The names of the products that the pass meets, with these numbers.
PassOptions all_of(const std::vector<Tensor>& outputs, const OperandType& type) {
  PassOptions options;
  network::ChoiceList choices(options);
  std::vector<PassApplication> log;
  const ComputeDag dag = network::run_passes(ComputeDag(outputs), Target::host(), options, choices,
                                             log, {.until = "precision"});
  for (const network::ProductPlace& p : network::product_places(dag)) {
    if (network::may_be(p, type.type)) options.types["precision@" + p.place] = type;
  }
  return options;
}

/// The error that rounding both operands allows for sums of a few products of numbers up to 1.
double tolerance_of(DataType type) {
  if (type == f16) return 1e-2;
  return type == f8e4m3 ? 0.5 : 0.1;
}

const OperandType kTypes[] = {{.tf32 = true},
                              {.type = f16},
                              {.type = bf16},
                              {.type = u8, .scale = 2.0F / 255, .zero = 128},
                              {.type = i8, .scale = 1.0F / 127},
                              {.type = f8e4m3, .scale = 1.0F / 448}};

TEST(PrecisionPass, RandomProductsComputeAboutWhatWasDeclared) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 40),
                first = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  int products = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const std::vector<Tensor> outputs =
        Drawer(rng, rng.choose<DataType>({f32, f32, f16, bf16})).run();
    const OperandType type = kTypes[rng.uniform_int(0, std::size(kTypes) - 1)];
    const PassOptions options = all_of(outputs, type);
    products += static_cast<int>(options.types.size());
    EXPECT_EQ(wrong_network(outputs,
                            std::max(tolerance_of(type.tf32 ? f16 : type.type),
                                     outputs[0].dtype() == f32 ? 0 : tolerance_of(bf16)),
                            to_string(options)),
              "")
        << "seed " << seed << ", " << to_string(type);
  }
  EXPECT_GT(products, count / 2) << "most networks have a product";
}

/// The types of what products read, in the network as it is cut.
std::vector<DataType> operands_of(const Network& network) {
  std::vector<DataType> types;
  for (const NetworkNode& node : network.nodes()) {
    for (const Tensor& t : node.inputs) {
      if (!t.op()->is_constant()) types.push_back(t.dtype());
    }
  }
  return types;
}

TEST(PrecisionPass, AProducerStoresTheShortNumbersBehindPadding) {
  const Tensor x = placeholder({1, 8, 10, 10}, f32, "x");
  const Tensor a = ops::relu(ops::conv2d(x, weights({16, 8, 3, 3}), {.padding = {1}}));
  const std::vector<Tensor> outputs = {ops::conv2d(a, weights({16, 16, 3, 3}), {.padding = {1}})};
  const std::string second = "precision@conv2d:1x16x10x10#2=bf16";
  EXPECT_EQ(operands_of(with_passes(outputs, second)).back(), bf16);
  EXPECT_EQ(operands_of(with_passes(outputs, "")).back(), f32);
  EXPECT_EQ(wrong_network(outputs, 0.1, second), "");
}

// Matrix units multiply what is rounded to tf32, product by product: the other one stays in f32.
TEST(PrecisionPass, ProductsOfTf32GoToMatrixUnits) {
  const Tensor x = placeholder({64, 128}, f32, "x");
  const std::vector<Tensor> outputs = {
      ops::dense(ops::relu(ops::dense(x, weights({96, 128}))), weights({80, 96}))};
  const std::string second = "precision@dense:64x80#1=tf32";
  const Network network(outputs, Target::parse("cuda -gpu=h200"), {.use_records = false},
                        parse_passes(second));
  std::vector<bool> on_units;
  for (const auto& task : network.tasks()) {
    const Schedule schedule = task.tmpl.static_schedule();
    std::vector<Tensor> args = schedule.dag().placeholders();
    for (const Tensor& t : schedule.dag().outputs()) args.push_back(t);
    const std::string text = to_string(lower_gpu(schedule, args));
    on_units.push_back(text.find("mma.") != std::string::npos);
  }
  EXPECT_THAT(on_units, ::testing::UnorderedElementsAre(false, true));
  EXPECT_EQ(wrong_network(outputs, 0.05, second), "");
  EXPECT_THAT(network.choices().front().text, HasSubstr("tf32"));
}

TEST(PrecisionPass, ProductsOfTwoComputedOperandsMayBeBf16AndNotBytes) {
  const Tensor a = placeholder({4, 6, 8}, f32, "a"), b = placeholder({4, 8, 6}, f32, "b");
  const std::vector<Tensor> outputs = {ops::batch_matmul(a, b)};
  const std::vector<NetworkChoice> none = with_passes(outputs, "").choices();
  const Network network(outputs, Target::host(), {}, all_of(outputs, {.type = bf16}));
  ASSERT_EQ(network.choices().size(), none.size() + 1);
  const NetworkChoice& choice = network.choices().front();
  EXPECT_THAT(choice.text, HasSubstr("bf16"));
  EXPECT_FALSE(choice.exact);
  EXPECT_EQ(wrong_network(outputs, 0.1, choice.name + "=bf16"), "");
  EXPECT_THAT(message_of([&] { (void)with_passes(outputs, choice.name + "=i8:0.1:0"); }),
              HasSubstr("has no weights"));
  // What is said of all products of an operator is said of those that have.
  const Tensor w = ops::dense(ops::reshape(ops::batch_matmul(a, b), {4, 36}), weights({5, 36}));
  EXPECT_EQ(wrong_network({w}, 0.5, "precision@batch_matmul:*=i8:0.1:0,precision@dense:*=bf16"),
            "");
}

TEST(PrecisionPass, TextAndOptionsAreTheSame) {
  for (const OperandType& type : kTypes) EXPECT_EQ(parse_operand_type(to_string(type)), type);
  const std::string list =
      "-join_products,tolerance=0.01,precision@linear:1x10#1=u8:0.0125:128,precision@matmul:*=bf16";
  EXPECT_EQ(to_string(parse_passes(list)), list);
  for (const char* wrong : {"", "f64", "bf16:1:0", "u8", "u8:0:0", "u8:-1:0", "u8:1:256",
                            "i8:1:-129", "f8e4m3:1:1", "u8:inf:0", "u8:1:2:3", "u8:x:0"})
    EXPECT_THAT(message_of([&] { (void)parse_operand_type(wrong); }), HasSubstr("no operands"))
        << wrong;
  for (const char* wrong : {"-1", "nan", "inf", "x", ""})
    EXPECT_THAT(message_of([&] { (void)parse_passes(std::string("tolerance=") + wrong); }),
                HasSubstr("is no tolerance"));
  EXPECT_THAT(message_of([&] { (void)parse_passes("precision@matmul:*"); }),
              HasSubstr("names no type"));
}

TEST(PrecisionPass, AProductThatIsNotThereIsAnError) {
  const std::vector<Tensor> outputs = {ops::dense(placeholder({2, 4}, f32, "x"), weights({3, 4}))};
  EXPECT_THAT(message_of([&] { (void)with_passes(outputs, "precision@dense:2x4#1=bf16"); }),
              HasSubstr("no choice"));
}

}  // namespace
}  // namespace heddle::testing
