// HiGHS as tools/get_highs builds it solves an LP and a MILP whose answers are known by hand.
#include <gtest/gtest.h>

#include <Highs.h>

namespace {

// maximise 3x + 2y subject to x + y <= 4, x + 3y <= 8, 0 <= x <= 3, y >= 0.
HighsModel TwoVariableModel() {
  HighsModel model;
  HighsLp& lp = model.lp_;
  lp.num_col_ = 2;
  lp.num_row_ = 2;
  lp.sense_ = ObjSense::kMaximize;
  lp.col_cost_ = {3, 2};
  lp.col_lower_ = {0, 0};
  lp.col_upper_ = {3, kHighsInf};
  lp.row_lower_ = {-kHighsInf, -kHighsInf};
  lp.row_upper_ = {4, 8};
  lp.a_matrix_.format_ = MatrixFormat::kRowwise;
  lp.a_matrix_.start_ = {0, 2, 4};
  lp.a_matrix_.index_ = {0, 1, 0, 1};
  lp.a_matrix_.value_ = {1, 1, 1, 3};
  return model;
}

void Solve(Highs& highs, const HighsModel& model) {
  ASSERT_EQ(highs.setOptionValue("output_flag", false), HighsStatus::kOk);
  ASSERT_EQ(highs.passModel(model), HighsStatus::kOk);
  ASSERT_EQ(highs.run(), HighsStatus::kOk);
}

TEST(HighsSmokeTest, LpHasKnownOptimumAndDuals) {
  Highs highs;
  Solve(highs, TwoVariableModel());
  EXPECT_EQ(highs.getModelStatus(), HighsModelStatus::kOptimal);
  EXPECT_NEAR(highs.getInfo().objective_function_value, 11, 1e-9);  // at (3, 1)
  const HighsSolution& solution = highs.getSolution();
  ASSERT_TRUE(solution.value_valid && solution.dual_valid);
  EXPECT_NEAR(solution.col_value[0], 3, 1e-9);
  EXPECT_NEAR(solution.col_value[1], 1, 1e-9);
  // Strong duality: y = (2, 0) on the rows and the reduced cost 1 on x <= 3 give 2*4 + 1*3 = 11.
  EXPECT_NEAR(solution.row_dual[0], 2, 1e-9);
  EXPECT_NEAR(solution.row_dual[1], 0, 1e-9);
  EXPECT_NEAR(solution.col_dual[0], 1, 1e-9);
}

TEST(HighsSmokeTest, MilpHasKnownOptimumAndDualBound) {
  HighsModel model = TwoVariableModel();
  model.lp_.col_upper_[0] = 2.5;  // cuts off the corner (3, 1) of the LP
  model.lp_.row_upper_[1] = 5.5;
  model.lp_.integrality_ = {HighsVarType::kInteger, HighsVarType::kInteger};
  Highs highs;
  Solve(highs, model);
  EXPECT_EQ(highs.getModelStatus(), HighsModelStatus::kOptimal);
  EXPECT_NEAR(highs.getInfo().objective_function_value, 8, 1e-9);  // at (2, 1): 2 + 3*2 > 5.5
  EXPECT_GE(highs.getInfo().mip_dual_bound, 8 - 1e-9);             // a maximum: bounded from above
  EXPECT_NEAR(highs.getInfo().mip_dual_bound, 8, 1e-6);
  EXPECT_NEAR(highs.getSolution().col_value[0], 2, 1e-9);
}

TEST(HighsSmokeTest, InfeasibleModelSaysSo) {
  HighsModel model = TwoVariableModel();
  model.lp_.row_lower_[0] = 4;
  model.lp_.col_upper_ = {1, 1};
  Highs highs;
  Solve(highs, model);
  EXPECT_EQ(highs.getModelStatus(), HighsModelStatus::kInfeasible);
}

}  // namespace
