#include <Highs.h>
#include <fmt/format.h>

#include "paper/lp.h"

namespace lucid {
namespace {

HighsLp ToHighs(const MilpModel& model) {
  HighsLp lp;
  lp.num_col_ = model.columns();
  lp.num_row_ = model.rows();
  lp.sense_ = ObjSense::kMaximize;
  lp.col_cost_.assign(model.cost().begin(), model.cost().end());
  for (const Interval& bounds : model.bounds()) {
    lp.col_lower_.push_back(bounds.lower);
    lp.col_upper_.push_back(bounds.upper);
  }
  lp.a_matrix_.format_ = MatrixFormat::kRowwise;
  lp.a_matrix_.num_col_ = model.columns();
  lp.a_matrix_.num_row_ = model.rows();
  lp.a_matrix_.start_ = {0};
  for (std::int32_t i = 0; i < model.rows(); ++i) {
    lp.row_lower_.push_back(model.RowBounds(i).lower);
    lp.row_upper_.push_back(model.RowBounds(i).upper);
    for (const Term& term : model.Row(i)) {
      lp.a_matrix_.index_.push_back(term.column);
      lp.a_matrix_.value_.push_back(term.coefficient);
    }
    lp.a_matrix_.start_.push_back(static_cast<HighsInt>(lp.a_matrix_.index_.size()));
  }
  return lp;
}

class HighsLpSolver final : public LpSolver {
 public:
  Status Load(const MilpModel& model) {
    highs_.setOptionValue("output_flag", false);
    highs_.setOptionValue("threads", 1);
    highs_.setOptionValue("presolve", "off");  // a warm start needs the model as it is
    highs_.setOptionValue("solver", "simplex");
    highs_.setOptionValue("simplex_strategy", 1);  // dual: stays feasible when bounds change
    // Measured on encodings of 2x50 networks: half again as many LPs per second as the defaults.
    highs_.setOptionValue("simplex_dual_edge_weight_strategy", 1);  // Devex
    highs_.setOptionValue("simplex_scale_strategy", 0);
    highs_.setOptionValue("primal_feasibility_tolerance", 1e-8);
    highs_.setOptionValue("dual_feasibility_tolerance", 1e-8);
    rows_ = model.rows();
    // A warning (tiny coefficients dropped) is welcome: only the advice suffers, not the bound.
    if (highs_.passModel(ToHighs(model)) == HighsStatus::kError) {
      return InternalError(fmt::format("HiGHS refuses a model of {} rows and {} columns",
                                       model.rows(), model.columns()));
    }
    return Ok();
  }

  void SetBounds(std::int32_t column, Interval bounds) override {
    highs_.changeColBounds(column, bounds.lower, bounds.upper);
  }
  void SetCost(std::int32_t column, double cost) override { highs_.changeColCost(column, cost); }

  LpAdvice Maximise(double seconds, std::int32_t iterations) override {
    highs_.zeroAllClocks();
    highs_.setOptionValue("time_limit", seconds);
    highs_.setOptionValue("simplex_iteration_limit", static_cast<HighsInt>(iterations));
    const HighsStatus status = highs_.run();
    LpAdvice advice;
    advice.iterations = highs_.getInfo().simplex_iteration_count;
    const HighsSolution& solution = highs_.getSolution();
    if (status != HighsStatus::kError && solution.dual_valid) {
      advice.multipliers = solution.row_dual;
    }
    if (status == HighsStatus::kError) return advice;
    const HighsModelStatus model_status = highs_.getModelStatus();
    if (model_status == HighsModelStatus::kOptimal) {
      advice.kind = LpAdvice::Kind::kOptimal;
      advice.point = solution.col_value;
    } else if (model_status == HighsModelStatus::kInfeasible) {
      bool there = false;
      std::vector<double> ray(static_cast<std::size_t>(rows_));
      if (highs_.getDualRay(there, ray.data()) != HighsStatus::kError && there) {
        advice.kind = LpAdvice::Kind::kInfeasible;
        advice.multipliers = std::move(ray);
      }
    }
    return advice;
  }

  LpBasis Basis() const override {
    const HighsBasis& basis = highs_.getBasis();
    LpBasis bytes;
    if (!basis.valid) return bytes;
    bytes.reserve(basis.col_status.size() + basis.row_status.size());
    for (const auto status : basis.col_status) bytes.push_back(static_cast<std::uint8_t>(status));
    for (const auto status : basis.row_status) bytes.push_back(static_cast<std::uint8_t>(status));
    return bytes;
  }

  void StartFrom(const LpBasis& bytes) override {
    if (bytes.empty()) return;
    HighsBasis basis = highs_.getBasis();
    const std::size_t columns = bytes.size() - static_cast<std::size_t>(rows_);
    basis.col_status.resize(columns);
    basis.row_status.resize(static_cast<std::size_t>(rows_));
    for (std::size_t j = 0; j < bytes.size(); ++j) {
      const auto status = static_cast<HighsBasisStatus>(bytes[j]);
      (j < columns ? basis.col_status[j] : basis.row_status[j - columns]) = status;
    }
    basis.valid = true;
    basis.alien = true;  // it may be of another model: HiGHS makes a basis of it
    highs_.setBasis(basis);
  }

 private:
  Highs highs_;
  std::int32_t rows_ = 0;
};

}  // namespace

Result<std::unique_ptr<LpSolver>> MakeHighsLp(const MilpModel& model) {
  auto solver = std::make_unique<HighsLpSolver>();
  LUCID_TRY(solver->Load(model));
  return std::unique_ptr<LpSolver>(std::move(solver));
}

}  // namespace lucid
