#include "serve/label_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace lucid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Features: age, sex, size_cos, size_sin, town_x, town_y, town_z.
Schema TestSchema() {
  return Schema::Parse(
             "column,kind,offset,divisor,categories\n"
             "age,numeric,0,100,\n"
             "sex,binary,,,0|1\n"
             "size,quarter-circle,,,small|large\n"
             "town,categorical,,,x|y|z\n"
             "label,label,,,no|yes\n",
             "test")
      .value();
}

class LabelRequestTest : public testing::Test {
 protected:
  Result<LabelRequest> Infer(const std::string& body) const { return reader_.ReadInference(body); }
  Result<LabelRequest> Predict(const std::string& body) const { return reader_.ReadPredict(body); }
  static std::string Encoded(const std::string& shape, const std::string& data,
                             const std::string& type = "FP32") {
    return R"({"inputs":[{"name":"input","datatype":")" + type + R"(","shape":)" + shape +
           R"(,"data":)" + data + "}]}";
  }
  static void ExpectRefused(const Result<LabelRequest>& result, const std::string& word,
                            const std::string& body) {
    ASSERT_FALSE(result.ok()) << body;
    EXPECT_THAT(result.error().message, HasSubstr(word)) << body;
    EXPECT_EQ(result.error().kind, ErrorKind::kInvalidInput) << body;
  }

  LabelRequestReader reader_{TestSchema(), {.rows = 3, .json_depth = 8}};
};

TEST_F(LabelRequestTest, AllSpellingsOfARowGiveTheSameFeatures) {
  const auto row = ElementsAre(0.39f, 1, 1, 0, 0, 1, 0);
  const std::string bodies[] = {
      R"({"rows":[{"age":39,"sex":"1","size":"small","town":"y"}]})",
      R"({"rows":[{"town":"y","size":"small","sex":1,"age":"39"}]})",
      R"({"rows":[[0.39,1,1,0,0,1,0]]})",
      R"({"input":[[0.39,1,1,0,0,1,0]]})",
      R"({"input":[[3.9e-1,1.0,1,-0.0,0,1,0e5]]})",
  };
  for (const std::string& body : bodies) {
    const auto request = Predict(body);
    ASSERT_TRUE(request.ok()) << body << "\n" << request.error().message;
    EXPECT_EQ(request->rows, 1);
    EXPECT_THAT(request->values, row) << body;
  }
  const std::string inferences[] = {
      Encoded("[1,7]", "[0.39,1,1,0,0,1,0]"),
      Encoded("[1,7]", "[[0.39,1,1,0,0,1,0]]"),
      R"({"inputs":[{"name":"age","datatype":"FP64","shape":[1],"data":[39]},)"
      R"({"name":"sex","datatype":"BYTES","shape":[1,1],"data":["1"]},)"
      R"({"name":"size","datatype":"BYTES","shape":[1,1],"data":[["small"]]},)"
      R"({"name":"town","datatype":"BYTES","shape":[1],"data":["y"]}]})",
      R"({"inputs":[{"name":"town","datatype":"BYTES","shape":[1],"data":["y"]},)"
      R"({"name":"age","datatype":"INT8","shape":[1],"data":[39]},)"
      R"({"name":"size","datatype":"BYTES","shape":[1,1],"data":["small"]},)"
      R"({"name":"sex","datatype":"UINT8","shape":[1],"data":[1]}]})",
      R"({"inputs":[{"name":"town","datatype":"BYTES","shape":[1],"data":["y"]},)"
      R"({"name":"age","datatype":"BYTES","shape":[1],"data":["39"]},)"
      R"({"name":"size","datatype":"BYTES","shape":[1,1],"data":["small"]},)"
      R"({"name":"sex","datatype":"UINT8","shape":[1],"data":[1]}]})",
      Encoded("[1,7]", "[0.39,1,1,0,0,1,0]", "FP64"),
  };
  for (const std::string& body : inferences) {
    const auto request = Infer(body);
    ASSERT_TRUE(request.ok()) << body << "\n" << request.error().message;
    EXPECT_THAT(request->values, row) << body;
  }
}

TEST_F(LabelRequestTest, RoundsOnceToFloat32) {
  // Halfway between two floats up to the 17th digit: by way of double it becomes the even one.
  const std::string above = "0.50000002980232238769531250001";  // 0.5 + 2^-25 and a little
  const auto request = Predict(R"({"input":[[)" + above + ",0,1,0,0,1,1e-60]]}");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->values[0], std::nextafterf(0.5f, 1));
  EXPECT_EQ(request->values[6], 0) << "below the smallest float";
  const auto subnormal = Predict(R"({"input":[[1e-40,0,1,0,0,1,-0.0]]})");
  ASSERT_TRUE(subnormal.ok());
  EXPECT_EQ(subnormal->values[0], 1e-40f);
}

TEST_F(LabelRequestTest, RowsAndIdAreKept) {
  const auto request =
      Infer(R"({"id":"q\"1","parameters":{"what":1},"outputs":[{"name":"label"}],"inputs":[)"
            R"({"name":"input","shape":[2,7],"datatype":"FP32","parameters":{"x":true},)"
            R"("data":[0,1,1,0,0,1,0, 1,0,0,1,1,0,0]}]})");
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->id, "q\"1");
  EXPECT_EQ(request->rows, 2);
  EXPECT_THAT(request->values, ElementsAre(0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0));
}

TEST_F(LabelRequestTest, BadPredictBodiesAreRefusedInWords) {
  const std::string row = R"({"age":39,"sex":"1","size":"small","town":"y"})";
  const std::pair<std::string, const char*> cases[] = {
      {"[]", "must be {\"rows\""},
      {"{}", "must be {\"rows\""},
      {R"({"rows":[)" + row + R"(],"more":1})", "nothing else"},
      {R"({"rows":{}})", "must be {\"rows\""},
      {R"({"rows":[]})", "no rows"},
      {R"({"rows":[)" + row + "," + row + "," + row + "," + row + "]}", "4 rows, at most 3"},
      {R"({"rows":[)" + row + R"(,{"age":39,"sex":"1","size":"small"}]})",
       "row 1: column 'town' is missing"},
      {R"({"rows":[{"agee":39}]})", "row 0: there is no column 'agee'"},
      {R"({"rows":[{"label":"yes"}]})", "there is no column 'label'"},
      {R"({"rows":[{"age":"x","sex":"1","size":"small","town":"y"}]})", "column 'age': 'x'"},
      {R"({"rows":[{"age":101,"sex":"1","size":"small","town":"y"}]})", "column 'age'"},
      {R"({"rows":[{"age":39,"sex":"2","size":"small","town":"y"}]})", "column 'sex': '2'"},
      {R"({"rows":[{"age":null,"sex":"1","size":"small","town":"y"}]})",
       "column 'age': must be a text or a number"},
      {R"({"rows":[{"age":[39],"sex":"1","size":"small","town":"y"}]})", "column 'age': must be"},
      {R"({"rows":[[1,2]]})", "row 0: must be a list of 7 numbers"},
      {R"({"rows":[7]})", "row 0: must be a list of 7 numbers"},
      {R"({"input":[{"age":39}]})", "row 0: must be a list of 7 numbers"},
      {R"({"input":[[0,0,0,0,0,0,"1"]]})", "finite float32"},
      {R"({"input":[[0,0,0,0,0,0,1e39]]})", "finite float32"},
      {R"({"input":[[0,0,0,0,0,0,-1e300]]})", "finite float32"},
  };
  for (const auto& [body, word] : cases) ExpectRefused(Predict(body), word, body);
}

TEST_F(LabelRequestTest, BadInferenceBodiesAreRefusedInWords) {
  const auto column = [](const std::string& tensor) { return R"({"inputs":[)" + tensor + "]}"; };
  const std::pair<std::string, const char*> cases[] = {
      {"[]", "must be a JSON object"},
      {"{}", "'inputs' must be a list"},
      {R"({"inputs":[]})", "'inputs' must be a list"},
      {R"({"inputs":[1]})", "with a 'name'"},
      {R"({"id":7,"inputs":[]})", "'id' must be a text"},
      {R"({"id":")" + std::string(300, 'x') + R"("})", "at most 256"},
      {Encoded("[1,7]", "[0,0,0]"), "needs 7 values, not 3"},
      {Encoded("[2,7]", "[[0,0,0,0,0,0,0]]"), "needs 2 lists, not 1"},
      {Encoded("[1,6]", "[0,0,0,0,0,0]"), "of shape [rows, 7]"},
      {Encoded("[7]", "[0,0,0,0,0,0,0]"), "of shape [rows, 7]"},
      {Encoded("[1,7]", "[0,0,0,0,0,0,0]", "INT32"), "must be FP32, FP64 or FP16"},
      {Encoded("[1,7]", "[0,0,0,0,0,0,0]", "BYTES"), "must be FP32, FP64 or FP16"},
      {Encoded("[1,7]", "[0,0,0,0,0,0,0]", "FP16"), "as binary data only"},
      {Encoded("[0,7]", "[]"), "no rows"},
      {Encoded("[4,7]", "[]"), "4 rows, at most 3"},
      {Encoded("[-1,7]", "[]"), "whole numbers"},
      {Encoded("[1.5,7]", "[]"), "whole numbers"},
      {Encoded("[9223372036854775807,7]", "[]"), "at most 3"},
      {Encoded("[18446744073709551617,7]", "[]"), "whole numbers"},
      {Encoded("[1,7]", "[0,0,0,0,0,0,[0]]"), "finite float32"},
      {Encoded("[1,7]", R"([0,0,0,0,0,0,"0"])"), "row 0: every feature"},
      {Encoded("[2,7]", "[0,0,0,0,0,0,0,0,0,0,0,0,0,4e38]"), "row 1: every feature"},
      {R"({"outputs":[{"name":"confidence"}],"inputs":[1]})", "no output 'confidence'"},
      {R"({"outputs":[{"name":"label","parameters":{"classification":2}}],"inputs":[1]})",
       "'classification' is not supported"},
      {column(R"({"name":"input","datatype":"FP32","shape":[1,7],)"
              R"("parameters":{"shared_memory_region":"x"}})"),
       "'shared_memory_region' is not supported"},
      {column(R"({"name":"input","datatype":"FP32","shape":[1,7],)"
              R"("parameters":{"binary_data_size":28}})"),
       "where 0 bytes are left"},
      {column(R"({"name":"age","datatype":"FP32","shape":[1],"data":[39]})"),
       "input 'sex' is missing"},
      {column(R"({"name":"wage","datatype":"FP32","shape":[1],"data":[39]})"), "no input 'wage'"},
      {column(R"({"name":"label","datatype":"INT64","shape":[1],"data":[1]})"), "no input 'label'"},
      {column(R"({"name":"age","datatype":"BOOL","shape":[1],"data":[true]})"), "not 'BOOL'"},
      {column(R"({"name":"sex","datatype":"FP32","shape":[1],"data":[1]})"), "not 'FP32'"},
      {column(R"({"name":"age","datatype":"INT8","shape":[1],"data":[128]})"),
       "whole number of INT8"},
      {column(R"({"name":"age","datatype":"UINT8","shape":[1],"data":[-1]})"),
       "whole number of UINT8"},
      {column(R"({"name":"age","datatype":"INT64","shape":[1],"data":[1.5]})"),
       "whole number of INT64"},
      {column(R"({"name":"age","datatype":"FP32","shape":[1],"data":["39"]})"), "a number"},
      {column(R"({"name":"age","datatype":"FP32","shape":[1,2],"data":[39]})"), "shape [1]"},
      {column(R"({"name":"age","datatype":"FP32","shape":[1],"data":[39]},)"
              R"({"name":"age","datatype":"FP32","shape":[1],"data":[39]})"),
       "twice"},
      {column(R"({"name":"age","datatype":"FP32","shape":[2],"data":[39,40]},)"
              R"({"name":"sex","datatype":"BYTES","shape":[1],"data":["1"]})"),
       "must have 2 values"},
  };
  for (const auto& [body, word] : cases) ExpectRefused(Infer(body), word, body);
}

// The bytes of a value, the least significant first.
template <typename T>
std::string Bytes(std::initializer_list<T> values) {
  std::string bytes;
  for (const T value : values) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  return bytes;
}

// A text as the extension has it: its length in 4 bytes, then the text.
std::string Text(const std::string& text) {
  return Bytes<std::uint32_t>({static_cast<std::uint32_t>(text.size())}) + text;
}

struct BinaryTensor {
  std::string name, type, shape, bytes;
};

struct BinaryBody {
  std::string json, bytes;
  std::string whole() const { return json + bytes; }
};

BinaryBody Binary(const std::vector<BinaryTensor>& tensors) {
  BinaryBody body;
  for (const BinaryTensor& tensor : tensors) {
    body.json += body.json.empty() ? R"({"inputs":[)" : ",";
    body.json += R"({"name":")" + tensor.name + R"(","datatype":")" + tensor.type +
                 R"(","shape":)" + tensor.shape + R"(,"parameters":{"binary_data_size":)" +
                 std::to_string(tensor.bytes.size()) + "}}";
    body.bytes += tensor.bytes;
  }
  body.json += "]}";
  return body;
}

TEST_F(LabelRequestTest, BinaryTensorsGiveTheFeaturesOfJson) {
  const std::string halves = Bytes<std::uint16_t>({0x3400, 0x3C00, 0x3C00, 0, 0x8000, 0x0001, 0});
  const auto half = reader_.ReadInference(Binary({{"input", "FP16", "[1,7]", halves}}).whole(),
                                          Binary({{"input", "FP16", "[1,7]", halves}}).json.size());
  ASSERT_TRUE(half.ok()) << half.error().message;
  EXPECT_THAT(half->values, ElementsAre(0.25F, 1, 1, 0, 0, 0x1p-24F, 0));

  const auto row = ElementsAre(0.39F, 1, 1, 0, 0, 1, 0);
  const BinaryBody bodies[] = {
      Binary({{"input", "FP32", "[1,7]", Bytes<float>({0.39F, 1, 1, 0, 0, 1, 0})}}),
      Binary({{"input", "FP64", "[1,7]", Bytes<double>({0.39, 1, 1, 0, 0, 1, 0})}}),
      Binary({{"age", "FP64", "[1]", Bytes<double>({39})},
              {"sex", "INT64", "[1,1]", Bytes<std::int64_t>({1})},
              {"size", "BYTES", "[1]", Text("small")},
              {"town", "BYTES", "[1,1]", Text("y")}}),
      Binary({{"town", "BYTES", "[1]", Text("y")},
              {"sex", "UINT16", "[1]", Bytes<std::uint16_t>({1})},
              {"size", "BYTES", "[1]", Text("small")},
              {"age", "BYTES", "[1]", Text("39")}}),
      Binary({{"town", "BYTES", "[1]", Text("y")},
              {"sex", "BYTES", "[1]", Text("1")},
              {"size", "BYTES", "[1]", Text("small")},
              {"age", "FP16", "[1]", Bytes<std::uint16_t>({0x50E0})}}),
  };
  for (const BinaryBody& body : bodies) {
    const auto request = reader_.ReadInference(body.whole(), body.json.size());
    ASSERT_TRUE(request.ok()) << body.json << "\n" << request.error().message;
    EXPECT_EQ(request->rows, 1);
    EXPECT_THAT(request->values, row) << body.json;
    EXPECT_FALSE(request->binary_output);
  }
}

TEST_F(LabelRequestTest, SeveralBinaryRowsAndJsonTensorsBesideThem) {
  const std::string json =
      R"({"inputs":[)"
      R"({"name":"age","datatype":"INT8","shape":[2],"parameters":{"binary_data_size":2}},)"
      R"({"name":"sex","datatype":"BYTES","shape":[2],"data":["1","0"]},)"
      R"({"name":"size","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":18}},)"
      R"({"name":"town","datatype":"BYTES","shape":[2],"data":["x","z"]}]})";
  const auto request = reader_.ReadInference(
      json + Bytes<std::int8_t>({39, 40}) + Text("small") + Text("large"), json.size());
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->rows, 2);
  EXPECT_FLOAT_EQ(request->values[0], 0.39F);
  EXPECT_FLOAT_EQ(request->values[7], 0.40F);
  EXPECT_EQ(request->values[8], 0);
  EXPECT_EQ(request->values[13], 1) << "town z of the second row";
}

TEST_F(LabelRequestTest, EveryHalfIsTheNumberThatItsFieldsSay) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31),
              fraction = static_cast<int>(bits & 1023);
    const std::string bytes =
        Bytes<std::uint16_t>({static_cast<std::uint16_t>(bits), 0, 0, 0, 0, 0, 0});
    const BinaryBody body = Binary({{"input", "FP16", "[1,7]", bytes}});
    const auto request = reader_.ReadInference(body.whole(), body.json.size());
    ASSERT_EQ(request.ok(), exponent < 31) << bits << ": infinities and NaN are no features";
    if (exponent == 31) continue;
    const double size =
        exponent == 0 ? fraction * 0x1p-24 : (1 + fraction / 1024.0) * std::pow(2.0, exponent - 15);
    EXPECT_EQ(request->values[0], bits >= 0x8000 ? -size : size) << bits;
  }
}

TEST_F(LabelRequestTest, BadBinaryDataIsRefusedInWords) {
  const std::string row = Bytes<float>({0, 1, 1, 0, 0, 1, 0});
  const auto input = [](const std::string& bytes, const std::string& shape = "[1,7]",
                        const std::string& type = "FP32") {
    return Binary({{"input", type, shape, bytes}});
  };
  const auto column = [](const std::string& type, const std::string& bytes) {
    return Binary({{"town", type, "[1]", bytes}});
  };
  BinaryBody more = input(row), less = input(row), both = input(row);
  more.bytes += "x";
  less.bytes.pop_back();
  both.json.insert(both.json.size() - 3, R"(,"data":[0,1,1,0,0,1,0])");
  const float infinite = std::numeric_limits<float>::infinity();
  const std::pair<BinaryBody, const char*> cases[] = {
      {more, "1 bytes after the JSON belong to no input"},
      {less, "where 27 bytes are left"},
      {both, "send one of them"},
      {input(row.substr(4)), "needs 28 bytes, not 24"},
      {input(row, "[2,7]"), "needs 56 bytes, not 28"},
      {input(row, "[4,7]"), "4 rows, at most 3"},
      {input(row, "[1,7]", "FP64"), "needs 56 bytes, not 28"},
      {input(row, "[1,7]", "BF16"), "must be FP32, FP64 or FP16"},
      {input(Bytes<float>({0, 1, infinite, 0, 0, 1, 0})), "row 0: every feature must be a finite"},
      {input(Bytes<double>({0, 1, 1e39, 0, 0, 1, 0}), "[1,7]", "FP64"), "finite float32"},
      {column("BYTES", "\x01"), "is not 1 values of BYTES"},
      {column("BYTES", Text("y") + "z"), "is not 1 values of BYTES"},
      {column("BYTES", Bytes<std::uint32_t>({0xFFFFFFFF}) + "y"), "is not 1 values of BYTES"},
      {column("BYTES", Text("\xff")), "a text in UTF-8"},
      {column("FP32", Bytes<float>({1})), "not 'FP32'"},
      {Binary({{"age", "FP32", "[1]", Bytes<float>({infinite})}}), "a finite FP32 number"},
      {Binary({{"age", "INT64", "[1]", "1234"}}), "is not 1 values of INT64"},
  };
  for (const auto& [body, word] : cases) {
    ExpectRefused(reader_.ReadInference(body.whole(), body.json.size()), word, body.json);
  }
  ExpectRefused(reader_.ReadInference("{}", 3), "3 bytes of JSON are announced", "{}");
  ExpectRefused(reader_.ReadInference(row, 0), "not valid JSON", "no JSON at all");
}

TEST_F(LabelRequestTest, TheOutputSaysWhetherItIsBinary) {
  const auto asks = [&](const std::string& more) {
    const auto request = Infer(R"({"inputs":[{"name":"input","datatype":"FP32","shape":[1,7],)"
                               R"("data":[0,1,1,0,0,1,0]}])" +
                               more + "}");
    EXPECT_TRUE(request.ok()) << more;
    return request.ok() && request->binary_output;
  };
  EXPECT_FALSE(asks(""));
  EXPECT_TRUE(asks(R"(,"parameters":{"binary_data_output":true})"));
  EXPECT_FALSE(asks(R"(,"parameters":{"binary_data_output":false})"));
  EXPECT_TRUE(asks(R"(,"outputs":[{"name":"label","parameters":{"binary_data":true}}])"));
  EXPECT_FALSE(asks(R"(,"outputs":[{"name":"label","parameters":{"binary_data":false}}],)"
                    R"("parameters":{"binary_data_output":true})"));
  EXPECT_TRUE(asks(R"(,"outputs":[{"name":"label"}],"parameters":{"binary_data_output":true})"));
}

}  // namespace
}  // namespace lucid
