#include "paper/model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "paper/branch_and_bound.h"
#include "paper/milp_test_support.h"
#include "support/scratch_folder.h"

#if __has_include(<Highs.h>)
#include <Highs.h>
#define LUCID_TEST_HAS_HIGHS 1
#endif

namespace lucid {
namespace {

using namespace milp_test;

TEST(MilpModel, KeepsWhatItWasGiven) {
  MilpModel model;
  EXPECT_EQ(model.AddColumn({-1, 2}, 3), 0);
  EXPECT_EQ(model.AddBinary(), 1);
  EXPECT_EQ(model.AddColumn({4, 4}), 2);
  model.SetCost(1, -7);
  model.AddRow(-kInfinity, 5, {{2, 1.5}, {0, 0}, {1, -2}});
  model.AddRow(1, 1, {});
  EXPECT_EQ(model.columns(), 3);
  EXPECT_EQ(model.rows(), 2);
  EXPECT_EQ(model.nonzeros(), 2);  // a zero is no term
  EXPECT_EQ(model.bounds()[1], (Interval{0, 1}));
  EXPECT_EQ(model.cost()[0], 3);
  EXPECT_EQ(model.cost()[1], -7);
  ASSERT_EQ(model.binaries().size(), 1U);
  EXPECT_EQ(model.binaries()[0], 1);
  ASSERT_EQ(model.Row(0).size(), 2U);
  EXPECT_EQ(model.Row(0)[0].column, 2);
  EXPECT_EQ(model.Row(0)[1].coefficient, -2);
  EXPECT_TRUE(model.Row(1).empty());
  EXPECT_EQ(model.RowBounds(0), (Interval{-kInfinity, 5}));
}

// ---- other solvers
// -------------------------------------------------------------------------------

// A file in a folder of its own.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& name) : path_(folder_ / name) {}
  const std::string& path() const { return path_; }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string Read() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

 private:
  const TemporaryFolder folder_;
  const std::string path_;
};

// The largest value of a model by some other program that has only the file; -inf: infeasible; NaN:
// it gave no answer.
using Oracle = double (*)(const std::string& mps);

double ByGlpsol(const std::string& mps) {
  const ScratchFile log("log"), solution("solution");
  const std::string command = "glpsol --freemps '" + mps + "' --tmlim 20 -w '" + solution.path() +
                              "' > '" + log.path() + "' 2>&1";
  if (std::system(command.c_str()) != 0) return std::nan("");
  const std::string said = log.Read();
  for (const char* none : {"NO PRIMAL FEASIBLE", "NO INTEGER FEASIBLE", "NO FEASIBLE SOLUTION"}) {
    if (said.find(none) != std::string::npos) return -kInfinity;
  }
  // s mip ROWS COLUMNS o VALUE, or s bas ROWS COLUMNS f f VALUE of a pure LP
  std::istringstream lines(solution.Read());
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string s, kind, rows, columns, status, dual;
    words >> s >> kind >> rows >> columns >> status;
    if (s != "s") continue;
    if (kind == "bas") words >> dual;
    double value = 0;
    if (words >> value && (status == "o" || (status == "f" && dual == "f"))) return -value;
  }
  return std::nan("");
}

double ByCbc(const std::string& mps) {
  const ScratchFile log("log"), solution("solution");
  // CBC 2.10.8's preprocessing loses the optimum of some of these models (and says so in its log).
  const std::string command = "cbc '" + mps + "' sec 20 preprocess off solve solution '" +
                              solution.path() + "' > '" + log.path() + "' 2>&1";
  if (std::system(command.c_str()) != 0) return std::nan("");
  if (log.Read().find("read with 0 errors") == std::string::npos) return std::nan("");
  const std::string said = solution.Read();  // Optimal - objective value -3.00000000
  const std::string first = said.substr(0, said.find('\n'));
  if (first.find("nfeasible") != std::string::npos) return -kInfinity;
  if (!first.starts_with("Optimal")) return std::nan("");
  return -std::atof(first.substr(first.rfind(' ')).c_str());
}

double ByHighs([[maybe_unused]] const std::string& mps) {
#ifdef LUCID_TEST_HAS_HIGHS
  Highs highs;
  highs.setOptionValue("output_flag", false);
  highs.setOptionValue("threads", 1);
  highs.setOptionValue("mip_rel_gap", 0.0);
  highs.setOptionValue("mip_abs_gap", 1e-8);
  if (highs.readModel(mps) != HighsStatus::kOk) return std::nan("");
  if (highs.run() == HighsStatus::kError) return std::nan("");
  if (highs.getModelStatus() == HighsModelStatus::kInfeasible) return -kInfinity;
  if (highs.getModelStatus() == HighsModelStatus::kOptimal) return -highs.getObjectiveValue();
#endif
  return std::nan("");
}

// The same with long mantissas: every row, column and the cost times some number.
MilpModel Stretched(Random& random, const MilpModel& model) {
  MilpModel result;
  std::vector<double> unit;
  const double cost_unit = random.Uniform(0.3, 3);
  for (std::int32_t j = 0; j < model.columns(); ++j) {
    unit.push_back(IsBinary(model, j) ? 1 : random.Uniform(0.3, 3));
    const auto [lower, upper] = model.bounds()[j];
    if (IsBinary(model, j)) {
      result.AddBinary();
    } else {
      result.AddColumn({lower * unit[j], upper * unit[j]});
    }
    result.SetCost(j, model.cost()[j] / unit[j] * cost_unit);
  }
  for (std::int32_t i = 0; i < model.rows(); ++i) {
    const double row_unit = random.Uniform(0.3, 3);
    std::vector<Term> terms(model.Row(i).begin(), model.Row(i).end());
    for (Term& term : terms) term.coefficient *= row_unit / unit[term.column];
    const auto [lower, upper] = model.RowBounds(i);
    result.AddRow(lower * row_unit, upper * row_unit, terms);
  }
  return result;
}

void ExpectAgreement(Oracle oracle) {
  int infeasible = 0;
  for (const std::uint64_t seed : Seeds(36)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    MilpModel model =
        RandomModel(random, random.Int(0, 7), random.Int(1, 5), random.Int(1, 7), seed % 3 != 0)
            .model;
    if (seed % 2 == 0) model = Stretched(random, model);
    const MilpResult result = Maximise(model, *HighsOrNull(model), {});
    ASSERT_EQ(result.end, MilpResult::End::kSolved);
    const ScratchFile file("model.mps");
    file.Write(ToMps(model));
    const double value = oracle(file.path());
    ASSERT_FALSE(std::isnan(value)) << "no answer to\n" << file.Read();
    infeasible += value == -kInfinity ? 1 : 0;
    if (value == -kInfinity) {
      ASSERT_EQ(result.bound.value(), value) << file.Read();
    } else {
      ASSERT_NEAR(result.bound.value(), value, 1e-5) << file.Read();
    }
  }
  EXPECT_GE(infeasible, 1);
  EXPECT_LE(infeasible, 12);
}

// Every clause of the file format decides one column's value, and no two values can make up for
// each other: what a reader or the writer gets wrong shows in the sum.
void ExpectEveryFeatureComesThrough(Oracle oracle) {
  MilpModel model;
  double optimum = 0;
  const auto column = [&](Interval bounds, double cost, double best) {
    optimum += cost * best;
    return model.AddColumn(bounds, cost);
  };
  model.AddRow(-kInfinity, 4, {{column({0, 9}, 1, 4), 1}});          // at most
  model.AddRow(2, kInfinity, {{column({0, 9}, -10, 2), 1}});         // at least
  model.AddRow(3.5, 3.5, {{column({0, 9}, 100, 3.5), 1}});           // equal
  model.AddRow(1, 6.25, {{column({0, 9}, 1000, 6.25), 1}});          // ranged, above
  model.AddRow(0.75, 6, {{column({0, 9}, -1e4, 0.75), 1}});          // ranged, below
  model.AddRow(-8, -2.5, {{column({-9, 9}, 1e5, -2.5), 1}});         // ranged, negative sides
  model.AddRow(-3, -3, {{column({-9, 9}, 1e5, -3), 1}});             // equal, negative
  model.AddRow(-kInfinity, kInfinity, {{column({0, 9}, 1, 9), 1}});  // free
  column({-7, 9}, -20, -7);                                          // a negative lower bound
  column({-7, -2}, 200, -2);                                         // a negative upper bound, too
  column({-7, 0}, 300, 0);                                           // an upper bound of zero
  column({5, 5}, -2000, 5);                                          // fixed
  column({1, 3}, 0.1, 3);                                            // in no row
  const std::int32_t one = model.AddBinary(), two = model.AddBinary();
  column({0, 0.3}, 7, 0.3);  // after the binaries: continuous again
  model.SetCost(one, 30);
  model.SetCost(two, 20);
  model.AddRow(-kInfinity, 1.5, {{one, 1}, {two, 1}});  // 40 without integrality
  optimum += 30;
  const ScratchFile file("model.mps");
  file.Write(ToMps(model));
  EXPECT_NEAR(oracle(file.path()), optimum, 1e-5);
  const double bound = Maximise(model, *HighsOrNull(model), {}).bound.value();
  EXPECT_NEAR(bound, optimum, 1e-5);
}

struct Program {
  const char* name;
  const char* package;
  Oracle oracle;
  friend void PrintTo(const Program& program, std::ostream* out) { *out << program.name; }
};

class ToMpsFor : public testing::TestWithParam<Program> {
 protected:
  void SetUp() override {
    if (!HaveHighs()) GTEST_SKIP() << "built without HiGHS";
    const auto& [name, package, oracle] = GetParam();
    if (package == nullptr) return;
    const std::string look = std::string("command -v ") + name + " > /dev/null 2>&1";
    if (std::system(look.c_str()) != 0) {
      GTEST_SKIP() << name << " is not installed (Debian package " << package << ")";
    }
  }
};

TEST_P(ToMpsFor, GivesTheOptimumOfRandomModels) { ExpectAgreement(GetParam().oracle); }
TEST_P(ToMpsFor, EveryFeatureComesThrough) { ExpectEveryFeatureComesThrough(GetParam().oracle); }

INSTANTIATE_TEST_SUITE_P(Solvers, ToMpsFor,
                         testing::Values(Program{"highs", nullptr, ByHighs},
                                         Program{"glpsol", "glpk-utils", ByGlpsol},
                                         Program{"cbc", "coinor-cbc", ByCbc}),
                         [](const auto& program) { return program.param.name; });

#ifdef LUCID_TEST_HAS_HIGHS
TEST(ToMps, EveryNumberRoundTripsExactly) {
  for (const std::uint64_t seed : Seeds(100)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const MilpModel model = Stretched(random, RandomModel(random, 4, 4, 8).model);
    const ScratchFile file("model.mps");
    file.Write(ToMps(model));
    Highs highs;
    highs.setOptionValue("output_flag", false);
    ASSERT_EQ(highs.readModel(file.path()), HighsStatus::kOk);
    HighsLp lp = highs.getLp();
    lp.ensureRowwise();
    ASSERT_EQ(lp.num_col_, model.columns());
    ASSERT_EQ(std::ssize(lp.integrality_), model.columns());
    for (std::int32_t j = 0; j < model.columns(); ++j) {
      ASSERT_EQ(lp.col_names_[j], "x" + std::to_string(j));
      ASSERT_EQ(lp.col_cost_[j], -model.cost()[j]);
      ASSERT_EQ(lp.col_lower_[j], model.bounds()[j].lower);
      ASSERT_EQ(lp.col_upper_[j], model.bounds()[j].upper);
      const auto wanted = IsBinary(model, j) ? HighsVarType::kInteger : HighsVarType::kContinuous;
      ASSERT_EQ(lp.integrality_[j], wanted);
    }
    std::map<std::string, std::int32_t> rows;  // HiGHS drops free ones
    for (HighsInt i = 0; i < lp.num_row_; ++i) rows[lp.row_names_[i]] = i;
    for (std::int32_t i = 0; i < model.rows(); ++i) {
      const auto [lower, upper] = model.RowBounds(i);
      const auto at = rows.find("r" + std::to_string(i));
      if (at == rows.end()) {
        ASSERT_TRUE(std::isinf(lower) && std::isinf(upper));
        continue;
      }
      ASSERT_EQ(lp.row_lower_[at->second], lower);
      ASSERT_GE(lp.row_upper_[at->second], upper);  // a range is rounded up
      const double slack = std::isfinite(lower) && lower != upper ? 1e-14 : 0;
      ASSERT_LE(lp.row_upper_[at->second], upper + slack);
      std::map<std::int32_t, double> wanted, found;
      for (const Term& term : model.Row(i)) wanted[term.column] = term.coefficient;
      const auto& matrix = lp.a_matrix_;
      for (HighsInt k = matrix.start_[at->second]; k < matrix.start_[at->second + 1]; ++k) {
        found[matrix.index_[k]] = matrix.value_[k];
      }
      ASSERT_EQ(found, wanted);
    }
  }
}
#endif

}  // namespace
}  // namespace lucid
