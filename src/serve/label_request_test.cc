#include "serve/label_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

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
      {Encoded("[1,6]", "[0,0,0,0,0,0]"), "FP32 of shape [rows, 7]"},
      {Encoded("[7]", "[0,0,0,0,0,0,0]"), "FP32 of shape [rows, 7]"},
      {Encoded("[1,7]", "[0,0,0,0,0,0,0]", "FP64"), "FP32 of shape [rows, 7]"},
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
      {R"({"outputs":[{"name":"label","parameters":{"binary_data":true}}],"inputs":[1]})",
       "binary data extension"},
      {R"({"parameters":{"binary_data_output":true},"inputs":[1]})", "binary data extension"},
      {column(R"({"name":"input","datatype":"FP32","shape":[1,7],)"
              R"("parameters":{"binary_data_size":28}})"),
       "binary data extension"},
      {column(R"({"name":"age","datatype":"FP32","shape":[1],"data":[39]})"),
       "input 'sex' is missing"},
      {column(R"({"name":"wage","datatype":"FP32","shape":[1],"data":[39]})"), "no input 'wage'"},
      {column(R"({"name":"label","datatype":"INT64","shape":[1],"data":[1]})"), "no input 'label'"},
      {column(R"({"name":"age","datatype":"BYTES","shape":[1],"data":["39"]})"), "not 'BYTES'"},
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

}  // namespace
}  // namespace lucid
