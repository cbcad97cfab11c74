#include "nn/foreign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>

#include "base/files.h"
#include "support/scratch_folder.h"

namespace lucid {
namespace {

using testing::HasSubstr;

struct Given {
  std::string name;
  std::vector<std::int64_t> shape;
  float first = 0;  // values count up from it
};

std::vector<float> ValuesOf(const Given& given) {
  std::int64_t count = 1;
  for (const std::int64_t size : given.shape) count *= size;
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), given.first);
  return values;
}

class ForeignTest : public testing::Test {
 protected:
  // As PyTorch's safetensors writes a state dict: no metadata of ours.
  std::string Write(const std::vector<Given>& tensors) const {
    std::vector<Tensor> list;
    list.reserve(tensors.size());
    for (const Given& given : tensors) list.push_back({.name = given.name, .shape = given.shape});
    std::string bytes = SafetensorsHeader::Build(std::move(list), {{"format", "pt"}}).Encode();
    for (const Given& given : tensors) {
      const std::vector<float> values = ValuesOf(given);
      bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    }
    const std::string path = folder_ + "/network.safetensors";
    EXPECT_TRUE(WriteFileAtomically(path, bytes).ok());
    return path;
  }
  std::string Message(const std::vector<Given>& tensors, const NetworkFit& fit) const {
    const auto network = ImportNetwork(Write(tensors), fit);
    return network.ok() ? "accepted as " + network->architecture.Canonical()
                        : network.error().message;
  }

  const std::string folder_ = ScratchFolder();
};

TEST_F(ForeignTest, LayersFollowTheNumbersOfTheirNames) {
  // In a file sorted by name, fc10 stands before fc2.
  const auto network = ImportNetwork(Write({{"fc1.bias", {4}, 300},
                                            {"fc1.weight", {4, 4}, 200},
                                            {"fc10.bias", {2}, 700},
                                            {"fc10.weight", {2, 4}, 600},
                                            {"fc2.bias", {4}, 500},
                                            {"fc2.weight", {4, 4}, 400}}),
                                     {4, 2, {}});
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->architecture.Canonical(), "4 > dense 4 > dense 4 > 2");
  const auto layers = network->architecture.layers();
  EXPECT_EQ(network->parameters[layers[0].weight_at], 200);
  EXPECT_EQ(network->parameters[layers[0].bias_at + 3], 303);
  EXPECT_EQ(network->parameters[layers[1].weight_at], 400);
  EXPECT_EQ(network->parameters[layers[2].weight_at + 7], 607);
  EXPECT_EQ(network->parameters[layers[2].bias_at], 700);
}

TEST_F(ForeignTest, WordsGoInTheOneOrderThatFitsAndNoneIsGuessed) {
  // As torch names them; "classifier" stands before "features" in the alphabet.
  EXPECT_EQ(Message({{"classifier.0.weight", {2, 12}},
                     {"classifier.0.bias", {2}},
                     {"classifier.2.weight", {3, 2}},
                     {"classifier.2.bias", {3}},
                     {"features.0.weight", {3, 1, 3}},
                     {"features.0.bias", {3}}},
                    {6, 3, {}}),
            "accepted as 6 > conv 3 width 3 stride 1 > dense 2 > 3");
  EXPECT_THAT(Message({{"in.weight", {4, 4}}, {"middle.weight", {4, 4}}, {"out.weight", {2, 4}}},
                      {4, 2, {}}),
              HasSubstr("more than one order"));
}

TEST_F(ForeignTest, ALayerWithoutBiasHasAZeroOne) {
  const auto network = ImportNetwork(Write({{"0.weight", {2, 3}, 1}}), {3, 2, {}});
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_EQ(network->parameters, (std::vector<float>{1, 2, 3, 4, 5, 6, 0, 0}));
}

TEST_F(ForeignTest, TheArchitectureGivenTellsStridesAndMustFit) {
  const std::vector<Given> tensors = {
      {"0.weight", {2, 1, 3}}, {"0.bias", {2}}, {"3.weight", {2, 6}}, {"3.bias", {2}}};
  EXPECT_THAT(Message(tensors, {7, 2, {}}), HasSubstr("takes 6 inputs where '0' gives 10"));
  const auto strided = Architecture::FromCanonical("7 > conv 2 width 3 stride 2 > 2").value();
  EXPECT_EQ(Message(tensors, {7, 2, strided}), "accepted as 7 > conv 2 width 3 stride 2 > 2");
  const auto other = Architecture::FromCanonical("7 > dense 2 > 2").value();
  EXPECT_THAT(Message({{"0.weight", {3, 7}}, {"1.weight", {2, 3}}}, {7, 2, other}),
              HasSubstr("must be '7 > dense 2 > 2'"));
}

TEST_F(ForeignTest, WhatDoesNotFitIsRefusedWithItsName) {
  const NetworkFit fit{3, 2, {}};
  EXPECT_THAT(Message({{"0.weight", {2, 4}}}, fit),
              HasSubstr("takes 4 inputs where the data has 3"));
  EXPECT_THAT(Message({{"0.weight", {1, 3}}}, fit), HasSubstr("1 outputs where the data has 2"));
  EXPECT_THAT(Message({{"0.weight", {2, 3}}, {"0.bias", {3}}}, fit), HasSubstr("'0.bias'"));
  EXPECT_THAT(Message({{"0.weight", {2, 3}}, {"1.bias", {2}}}, fit), HasSubstr("no weight"));
  EXPECT_THAT(Message({{"0.weight", {2, 3}}, {"1.weight", {2}}}, fit), HasSubstr("'1.weight'"));
  EXPECT_THAT(Message({{"0.weight", {2, 3}}, {"1.running_mean", {2}}}, fit),
              HasSubstr("'1.running_mean'"));
  EXPECT_THAT(Message({{"0.weight", {2, 1, 3}}}, fit), HasSubstr("convolution"));
  EXPECT_THAT(Message({{"0.weight", {2, 3}, std::numeric_limits<float>::infinity()}}, fit),
              HasSubstr("not finite"));
  EXPECT_THAT(ImportNetwork("net.pt", fit).error().message, HasSubstr(".safetensors and .onnx"));
}

TEST_F(ForeignTest, DoublePrecisionIsRefusedWithTheRemedy) {
  const std::string header = R"({"0.weight":{"dtype":"F64","shape":[2,3],"data_offsets":[0,48]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  const std::string path = folder_ + "/double.safetensors";
  ASSERT_TRUE(WriteFileAtomically(path, bytes + header + std::string(48, '\0')).ok());
  const auto network = ImportNetwork(path, {3, 2, {}});
  ASSERT_FALSE(network.ok());
  EXPECT_THAT(network.error().message, HasSubstr("'F64', must be F32"));
}

TEST_F(ForeignTest, OurOwnFilesComeBackWithTheirStrides) {
  Network network{Architecture::FromCanonical("9 > conv 2 width 3 stride 2 > dense 3 > 2").value(),
                  {}};
  network.parameters.resize(static_cast<std::size_t>(network.architecture.parameters()));
  std::iota(network.parameters.begin(), network.parameters.end(), 1.0F);
  const std::string path = folder_ + "/ours.safetensors";
  ASSERT_TRUE(SaveNetwork(network, path).ok());
  const auto back = ImportNetwork(path, {9, 2, {}});
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->architecture, network.architecture);
  EXPECT_EQ(back->parameters, network.parameters);
}

TEST_F(ForeignTest, StackedNetworksAreSlicesOfTheFirstAxis) {
  const std::string path = Write({{"0.weight", {3, 2, 2}, 0}, {"0.bias", {3, 2}, 100}});
  const auto file = MappedFile::Open(path);
  const auto header = SafetensorsHeader::Read(path).value();
  const auto tensors = ForeignTensors::Find(header, 3, {2, 2, {}}, path);
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  std::vector<float> out(6);
  tensors->Copy(file->bytes(), 2, out);
  EXPECT_EQ(out, (std::vector<float>{8, 9, 10, 11, 104, 105}));
  EXPECT_FALSE(ForeignTensors::Find(header, 4, {2, 2, {}}, path).ok());
}

}  // namespace
}  // namespace lucid
