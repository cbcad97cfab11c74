#include "nn/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lucid {
namespace {

using testing::HasSubstr;

std::string WithHeader(const std::string& json, std::size_t data_bytes) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json.size() >> (8 * i) & 0xff);
  return bytes + json + std::string(data_bytes, 'd');
}

std::string MessageFor(const std::string& bytes) {
  const auto parsed = SafetensorsHeader::Parse(std::as_bytes(std::span(bytes)), bytes.size(), "f");
  return parsed.ok() ? "accepted" : parsed.error().message;
}

TEST(Safetensors, BuiltHeaderIsReadBack) {
  const SafetensorsHeader built =
      SafetensorsHeader::Build({{.name = "a", .type = TensorType::kF32, .shape = {2, 3}},
                                {.name = "b", .type = TensorType::kI64, .shape = {4}},
                                {.name = "c", .type = TensorType::kU8, .shape = {1, 32}}},
                               {{"key", "value"}});
  std::string bytes = built.Encode();
  EXPECT_EQ(bytes.size() % 64, 0u) << "the data is aligned for whoever maps it";
  bytes.resize(built.file_size());
  const auto parsed = SafetensorsHeader::Parse(std::as_bytes(std::span(bytes)), bytes.size(), "f");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->Metadata("key").value(), "value");
  const std::int64_t shape[] = {2, 3};
  const auto found = parsed->Find("a", TensorType::kF32, shape);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)->bytes(), 24u);
  EXPECT_FALSE(parsed->Find("a", TensorType::kI64, shape).ok());
  EXPECT_FALSE(parsed->Find("z", TensorType::kF32, shape).ok());
  EXPECT_FALSE(parsed->Metadata("other").ok());
}

TEST(Safetensors, FilesOfOthersAreUnderstood) {
  EXPECT_EQ(
      MessageFor(WithHeader(
          R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"a":"b"}})", 8)),
      "accepted");
}

TEST(Safetensors, WhateverIsWrongIsNamed) {
  EXPECT_THAT(MessageFor(""), HasSubstr("too few"));
  EXPECT_THAT(MessageFor(std::string(8, '\xff')), HasSubstr("does not fit"));
  EXPECT_THAT(MessageFor(WithHeader("[]", 0)), HasSubstr("not a JSON object"));
  EXPECT_THAT(MessageFor(WithHeader("{", 0)), HasSubstr("not a JSON object"));
  EXPECT_THAT(
      MessageFor(WithHeader(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9)),
      HasSubstr("truncated or damaged"));
  EXPECT_THAT(
      MessageFor(WithHeader(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4)),
      HasSubstr("do not hold"));
  EXPECT_THAT(
      MessageFor(WithHeader(R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", 4)),
      HasSubstr("dtype"));
  EXPECT_THAT(
      MessageFor(WithHeader(R"({"w":{"dtype":"U8","shape":[-1],"data_offsets":[0,4]}})", 4)),
      HasSubstr("shape"));
  EXPECT_THAT(
      MessageFor(WithHeader(
          R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0)),
      HasSubstr("too large"));
  EXPECT_THAT(MessageFor(WithHeader(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                                    3)),
              HasSubstr("overlap"));
  EXPECT_THAT(MessageFor(WithHeader(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                    R"("a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
                                    4)),
              HasSubstr("twice"));
  EXPECT_THAT(MessageFor(WithHeader(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("__metadata__"));
  EXPECT_THAT(MessageFor(WithHeader(R"({"__metadata__":3})", 0)), HasSubstr("__metadata__"));
}

}  // namespace
}  // namespace lucid
