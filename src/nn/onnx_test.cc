#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <numeric>

#include "nn/foreign.h"

namespace lucid {
namespace {

using onnx::TensorProto;
using testing::HasSubstr;

// Builds a chain of nodes as exporters write them.
class Model {
 public:
  explicit Model(const std::vector<std::int64_t>& input) {
    auto* value = graph().add_input();
    value->set_name("x");
    auto* type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(TensorProto::FLOAT);
    type->mutable_shape()->add_dim()->set_dim_param("batch");
    for (const std::int64_t size : input) type->mutable_shape()->add_dim()->set_dim_value(size);
  }

  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  Model& Floats(const std::string& name, const std::vector<std::int64_t>& shape, float first,
                bool raw = true) {
    TensorProto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(TensorProto::FLOAT);
    std::int64_t count = 1;
    for (const std::int64_t size : shape) {
      tensor->add_dims(size);
      count *= size;
    }
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), first);
    if (raw) {
      tensor->set_raw_data(values.data(), values.size() * sizeof(float));
    } else {
      for (const float v : values) tensor->add_float_data(v);
    }
    return *this;
  }
  Model& Wholes(const std::string& name, const std::vector<std::int64_t>& values) {
    TensorProto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(TensorProto::INT64);
    tensor->add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t v : values) tensor->add_int64_data(v);
    return *this;
  }
  // A node on the end of the chain.
  Model& Then(const std::string& op, const std::vector<std::string>& constants = {}) {
    node_ = graph().add_node();
    node_->set_op_type(op);
    node_->set_name("/" + op + std::to_string(graph().node_size()));
    node_->add_input(last_);
    for (const std::string& name : constants) node_->add_input(name);
    before_ = last_;
    last_ = "v" + std::to_string(graph().node_size());
    node_->add_output(last_);
    return *this;
  }
  // A node beside the chain, or (output empty) on its end.
  Model& Node(const std::string& op, const std::vector<std::string>& inputs,
              const std::string& output = "") {
    Then(op);
    node_->clear_input();
    for (const std::string& name : inputs) node_->add_input(name);
    if (!output.empty()) {
      node_->set_output(0, output);
      last_ = before_;
    }
    return *this;
  }
  Model& With(const std::string& name, std::int64_t value) {
    auto* attribute = node_->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
    return *this;
  }
  Model& Ints(const std::string& name, const std::vector<std::int64_t>& values) {
    auto* attribute = node_->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t v : values) attribute->add_ints(v);
    return *this;
  }
  Model& Scaled(const std::string& name, float value) {
    auto* attribute = node_->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
    return *this;
  }

  std::string Bytes() const {
    onnx::ModelProto model = model_;
    model.mutable_graph()->add_output()->set_name(last_);
    return model.SerializeAsString();
  }
  Result<Network> Read(const NetworkFit& fit) const {
    const std::string bytes = Bytes();
    return ReadOnnx(std::as_bytes(std::span(bytes)), fit, "net.onnx");
  }
  std::string Message(const NetworkFit& fit) const {
    const auto network = Read(fit);
    return network.ok() ? "accepted as " + network->architecture.Canonical()
                        : network.error().message;
  }

 private:
  onnx::ModelProto model_;
  onnx::NodeProto* node_ = nullptr;
  std::string last_ = "x", before_;
};

// 3 inputs, 2 hidden, 2 classes, as torch.onnx.export writes it.
Model TwoLayers() {
  Model model({3});
  model.Floats("0.weight", {2, 3}, 10).Floats("0.bias", {2}, 20);
  model.Floats("2.weight", {2, 2}, 30).Floats("2.bias", {2}, 40, /*raw=*/false);
  model.Then("Gemm", {"0.weight", "0.bias"}).With("transB", 1).Scaled("alpha", 1).Then("Relu");
  return model;
}
const NetworkFit kFit{3, 2, {}};

TEST(Onnx, GemmsOfPyTorchAreReadBitForBit) {
  const auto network =
      TwoLayers().Then("Gemm", {"2.weight", "2.bias"}).With("transB", 1).Read(kFit);
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->architecture.Canonical(), "3 > dense 2 > 2");
  EXPECT_EQ(network->parameters, (std::vector<float>{10, 11, 12, 13, 14, 15, 20, 21,  //
                                                     30, 31, 32, 33, 40, 41}));
}

TEST(Onnx, MatMulAndAddOfKerasAreTurned) {
  Model model({3});
  model.Floats("w", {3, 2}, 0).Floats("b", {1, 2}, 8);
  model.Then("MatMul", {"w"}).Then("Add", {"b"}).Then("Identity");
  const auto network = model.Read(kFit);
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->parameters, (std::vector<float>{0, 2, 4, 1, 3, 5, 8, 9}));
}

TEST(Onnx, ConvolutionsWithReshapesAroundThem) {
  for (const std::string flatten : {"Flatten", "Reshape"}) {
    Model model({7});
    model.Floats("c", {2, 1, 3}, 1).Floats("cb", {2}, 50).Floats("w", {2, 6}, 60);
    model.Wholes("axes", {1}).Wholes("flat", {0, -1});
    model.Then("Unsqueeze", {"axes"}).Then("Conv", {"c", "cb"}).Ints("strides", {2});
    model.Ints("kernel_shape", {3}).Ints("pads", {0, 0}).Ints("dilations", {1}).With("group", 1);
    model.Then("Relu");
    flatten == "Flatten" ? model.Then("Flatten") : model.Then("Reshape", {"flat"});
    model.Then("Gemm", {"w"}).With("transB", 1);
    const auto network = model.Read({7, 2, {}});
    ASSERT_TRUE(network.ok()) << network.error().message;
    EXPECT_EQ(network->architecture.Canonical(), "7 > conv 2 width 3 stride 2 > 2");
    EXPECT_EQ(network->parameters[0], 1);
    EXPECT_EQ(network->parameters[6], 50);
    EXPECT_EQ(network->parameters[8], 60);
    EXPECT_EQ(network->parameters.back(), 0) << "no bias is a zero bias";
  }
}

// x.view(x.size(0), 1, x.size(1)) and y.view(x.size(0), -1) with a batch of any size.
TEST(Onnx, SizesThatAreComputedAreFollowed) {
  const auto model = [](std::int64_t first_place, std::int64_t minus_one) {
    Model m({4});
    m.Wholes("zero", {0}).Wholes("one", {1}).Wholes("minus", {minus_one});
    m.Wholes("place", {first_place});
    m.Floats("c.weight", {2, 1, 2}, 1).Floats("d.weight", {2, 6}, 5);
    m.Node("Shape", {"x"}, "s").Node("Gather", {"s", "place"}, "n");
    m.Node("Gather", {"s", "one"}, "width").Node("Unsqueeze", {"n"}, "n1").Ints("axes", {0});
    m.Node("Concat", {"n1", "one", "width"}, "t").With("axis", 0);
    m.Then("Reshape", {"t"}).Then("Conv", {"c.weight"}).Then("Relu");
    m.Node("Concat", {"n1", "minus"}, "u").With("axis", 0);
    return m.Then("Reshape", {"u"}).Then("Gemm", {"d.weight"}).With("transB", 1);
  };
  const auto network = model(0, -1).Read({4, 2, {}});
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->architecture.Canonical(), "4 > conv 2 width 2 stride 1 > 2");
  EXPECT_TRUE(model(-2, 6).Read({4, 2, {}}).ok()) << "the same, counted from the end";
  // The batch has to stay where it is, and what is no size is none.
  EXPECT_THAT(model(1, -1).Message({4, 2, {}}), HasSubstr("('Reshape')"));
  EXPECT_THAT(model(2, -1).Message({4, 2, {}}), HasSubstr("('Gather')"));
  EXPECT_THAT(model(0, 5).Message({4, 2, {}}), HasSubstr("the number of values"));
  Model elsewhere({4});
  elsewhere.Wholes("zero", {0}).Wholes("one", {1}).Floats("d.weight", {2, 4}, 5);
  elsewhere.Node("Shape", {"x"}, "s").Node("Gather", {"s", "zero"}, "n");
  elsewhere.Node("Concat", {"one", "n"}, "t").With("axis", 0).Then("Reshape", {"t"});
  EXPECT_THAT(elsewhere.Message({4, 2, {}}), HasSubstr("does not keep the number of values"));
  Model other({4});
  EXPECT_THAT(other.Floats("w", {2, 4}, 0).Node("Shape", {"w"}, "s").Message({4, 2, {}}),
              HasSubstr("is not of a value of the chain"));
}

// Each Concat doubles the list: a million sizes from twenty short nodes.
TEST(Onnx, ListsOfSizesStayShort) {
  Model doubling({4});
  doubling.Node("Shape", {"x"}, "s0");
  for (int i = 0; i < 20; ++i) {
    const std::string s = fmt::format("s{}", i);
    doubling.Node("Concat", {s, s}, fmt::format("s{}", i + 1)).With("axis", 0);
  }
  EXPECT_THAT(doubling.Message({4, 2, {}}), HasSubstr("a list of more than 64 sizes"));
  Model axes({4});
  axes.Wholes("many", {1, 2, 3, 4, 5, 6, 7, 8});
  for (int i = 0; i < 10; ++i) axes.Then("Unsqueeze", {"many"});
  EXPECT_THAT(axes.Message({4, 2, {}}), HasSubstr("a value of more than 64 axes"));
}

TEST(Onnx, TheConvolutionIsOurs) {
  // Logits by hand: y[o][t] = sum_k w[o][k] x[t + k], relu, then a sum per filter.
  Model model({1, 4});
  model.Floats("c", {2, 1, 2}, -1).Floats("w", {2, 6}, 1);
  model.Then("Conv", {"c"}).Then("Relu").Then("Flatten").Then("Gemm", {"w"}).With("transB", 1);
  const auto network = model.Read({4, 2, {}});
  ASSERT_TRUE(network.ok()) << network.error().message;
  const std::vector<float> x = {0.5F, 0.25F, 1.0F, 0.0F};
  std::vector<double> logits(2), expected(2);
  Evaluator(*network).Logits(x, logits);
  for (int o = 0; o < 2; ++o) {
    for (int t = 0; t < 3; ++t) {
      const double y = std::max(0.0, (2 * o - 1) * double{x[t]} + 2.0 * o * double{x[t + 1]});
      for (int c = 0; c < 2; ++c) expected[c] += y * (1 + 6 * c + 3 * o + t);
    }
  }
  EXPECT_EQ(logits, expected);
}

TEST(Onnx, AFinalSoftmaxIsDropped) {
  const auto plain = TwoLayers().Then("Gemm", {"2.weight", "2.bias"}).With("transB", 1).Read(kFit);
  for (const std::string op : {"Softmax", "LogSoftmax"}) {
    Model model = TwoLayers();
    model.Then("Gemm", {"2.weight", "2.bias"}).With("transB", 1).Then(op);
    EXPECT_EQ(model.Read(kFit)->parameters, plain->parameters);
    EXPECT_EQ(model.With("axis", -1).Read(kFit)->parameters, plain->parameters);
    EXPECT_THAT(model.Then("Relu").Message(kFit), HasSubstr("comes after a Softmax"));
    EXPECT_THAT(TwoLayers().Then(op).Message(kFit), HasSubstr("after the logits"));
  }
  EXPECT_THAT(TwoLayers()
                  .Then("Gemm", {"2.weight", "2.bias"})
                  .With("transB", 1)
                  .Then("Softmax")
                  .With("axis", 0)
                  .Message(kFit),
              HasSubstr("along the classes"));
}

TEST(Onnx, DropoutIsDroppedUnlessItTrains) {
  const auto plain = TwoLayers().Then("Gemm", {"2.weight", "2.bias"}).With("transB", 1).Read(kFit);
  Model model = TwoLayers();
  model.Then("Dropout").Scaled("ratio", 0.5F);
  model.graph().mutable_node(2)->add_output("mask");
  model.Then("Gemm", {"2.weight", "2.bias"}).With("transB", 1);
  const auto network = model.Read(kFit);
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->parameters, plain->parameters);

  Model trains = TwoLayers();
  trains.Floats("ratio", {}, 0.5F);
  TensorProto* mode = trains.graph().add_initializer();
  mode->set_name("mode");
  mode->set_data_type(TensorProto::BOOL);
  mode->set_raw_data(std::string(1, '\1'));
  trains.Then("Dropout", {"ratio", "mode"});
  EXPECT_THAT(trains.Message(kFit), HasSubstr("training mode"));
}

// 3 inputs; unit u of the first layer is normalised by constants 1 + u, 5 + u, 2 + u, 3 + u.
TEST(Onnx, BatchNormalizationGoesIntoTheLayerBefore) {
  Model model({3});
  model.Floats("w", {2, 3}, 10).Floats("b", {2}, 20).Floats("last", {2, 2}, 30);
  model.Floats("scale", {2}, 1).Floats("shift", {2}, 5).Floats("mean", {2}, 2);
  model.Floats("variance", {2}, 3).Floats("short", {1}, 1);
  Model after_relu = model, wrong = model, trains = model;
  model.Then("Gemm", {"w", "b"}).With("transB", 1);
  model.Then("BatchNormalization", {"scale", "shift", "mean", "variance"}).Scaled("epsilon", 1);
  model.Then("Relu").Then("MatMul", {"last"});
  const auto network = model.Read(kFit);
  ASSERT_TRUE(network.ok()) << network.error().message;
  // (w x + b - mean) * scale / sqrt(variance + 1) + shift; the first unit's factor is 1/2.
  const double second = 2 / std::sqrt(5.0);
  EXPECT_EQ(network->parameters[0], 5);
  EXPECT_EQ(network->parameters[2], 6);
  EXPECT_EQ(network->parameters[3], static_cast<float>(13 * second));
  EXPECT_EQ(network->parameters[6], 9 + 5);
  EXPECT_EQ(network->parameters[7], static_cast<float>(18 * second + 6));

  after_relu.Then("Gemm", {"w", "b"}).With("transB", 1).Then("Relu");
  after_relu.Then("BatchNormalization", {"scale", "shift", "mean", "variance"});
  EXPECT_THAT(after_relu.Message(kFit), HasSubstr("before its Relu"));
  wrong.Then("Gemm", {"w", "b"}).With("transB", 1);
  wrong.Then("BatchNormalization", {"scale", "short", "mean", "variance"});
  EXPECT_THAT(wrong.Message(kFit), HasSubstr("'short' is not one value for each of 2 outputs"));
  trains.Then("Gemm", {"w", "b"}).With("transB", 1);
  trains.Then("BatchNormalization", {"scale", "shift", "mean", "variance"});
  EXPECT_THAT(trains.With("training_mode", 1).Message(kFit), HasSubstr("training mode"));
}

TEST(Onnx, AnythingElseIsRefusedWithNodeAndOperator) {
  EXPECT_THAT(TwoLayers().Then("Gelu").Message(kFit),
              HasSubstr("'/Gelu3' ('Gelu'): not supported"));
  EXPECT_THAT(TwoLayers().Message(kFit), HasSubstr("ends in Relu"));
  EXPECT_THAT(TwoLayers().Then("Gemm", {"x"}).Message(kFit), HasSubstr("not a constant"));
  EXPECT_THAT(TwoLayers().Then("Gemm", {"0.bias"}).Message(kFit), HasSubstr("two axes"));
  EXPECT_THAT(TwoLayers().Then("Gemm", {"0.weight"}).With("transB", 1).Message(kFit),
              HasSubstr("takes 3 inputs where 2 come"));
  EXPECT_THAT(TwoLayers().Then("Gemm", {"2.weight"}).Scaled("alpha", 2).Message(kFit),
              HasSubstr("alpha is 2"));
  EXPECT_THAT(TwoLayers().Then("MatMul", {"2.weight"}).Then("Gemm", {"2.weight"}).Message(kFit),
              HasSubstr("no Relu between"));
  EXPECT_THAT(TwoLayers().Then("Add", {"2.bias"}).Message(kFit), HasSubstr("bias of the MatMul"));
  EXPECT_THAT(TwoLayers().Then("MatMul", {"2.weight"}).Message({4, 2, {}}),
              HasSubstr("the data has 4 features"));
  EXPECT_THAT(TwoLayers().Then("MatMul", {"2.weight"}).Message({3, 3, {}}),
              HasSubstr("2 outputs where the data has 3 classes"));
}

TEST(Onnx, ABranchIsNotAChain) {
  Model model = TwoLayers();
  model.Then("MatMul", {"2.weight"});
  model.graph().mutable_node(2)->set_input(0, "x");
  EXPECT_THAT(model.Message(kFit), HasSubstr("not a chain"));
}

TEST(Onnx, OtherTypesAndOtherFilesAreRefused) {
  Model model = TwoLayers();
  model.Then("MatMul", {"2.weight"});
  auto* weight = model.graph().mutable_initializer(2);
  weight->set_data_type(TensorProto::DOUBLE);
  EXPECT_THAT(model.Message(kFit), HasSubstr("'2.weight' is not float32"));
  weight->set_data_type(TensorProto::FLOAT);
  weight->set_data_location(TensorProto::EXTERNAL);
  EXPECT_THAT(model.Message(kFit), HasSubstr("another file"));
  weight->clear_data_location();
  weight->set_dims(0, 1'000'000'000'000);
  EXPECT_THAT(model.Message(kFit), HasSubstr("too large"));
  weight->set_dims(0, 3);
  EXPECT_THAT(model.Message(kFit), HasSubstr("wrong size"));
}

TEST(Onnx, PaddedGroupedAndFlatConvolutionsAreRefused) {
  const auto message = [](const std::string& name, const std::vector<std::int64_t>& values) {
    Model model({1, 7});
    model.Floats("c", {2, 1, 3}, 1).Then("Conv", {"c"}).Ints(name, values).Then("Relu");
    return model.Message({7, 2, {}});
  };
  EXPECT_THAT(message("pads", {1, 1}), HasSubstr("pads"));
  EXPECT_THAT(message("dilations", {2}), HasSubstr("dilations"));
  EXPECT_THAT(message("strides", {0}), HasSubstr("stride 0"));
  EXPECT_THAT(message("output_padding", {1}), HasSubstr("output_padding"));
  EXPECT_THAT(message("kernel_shape", {4}), HasSubstr("kernel_shape"));
  EXPECT_THAT(message("group", {2}), HasSubstr("another type"));
  EXPECT_THAT(message("strides", {1, 1}), HasSubstr("one stride"));
}

TEST(Onnx, EveryTruncationIsRefusedOrTheSameNetwork) {
  const std::string bytes =
      TwoLayers().Then("Gemm", {"2.weight", "2.bias"}).With("transB", 1).Bytes();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string part = bytes.substr(0, size);
    EXPECT_FALSE(ReadOnnx(std::as_bytes(std::span(part)), kFit, "part.onnx").ok()) << size;
  }
}

}  // namespace
}  // namespace lucid
