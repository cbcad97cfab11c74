#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "fit/fit_state.h"
#include "lucid/fit/fit.h"

namespace lucid {

using Json = nlohmann::ordered_json;

std::string FitJson(const FitSummary& fit, WantedPromise wanted) {
  Json columns = Json::array(), choices = Json::array(), classes = Json::array();
  for (const ColumnDecision& column : fit.schema.columns) {
    columns.push_back({{"column", column.name}, {"what", column.what}, {"margin", column.margin}});
  }
  for (const FitChoice& choice : fit.choices) {
    choices.push_back({{"guard", NameOf(choice.method)},
                       {"promise", choice.promise},
                       {"epsilon", choice.epsilon},
                       {"accuracy", NumberOrNull(choice.accuracy)},
                       {"noised_fraction", NumberOrNull(choice.noised)}});
  }
  for (const ClassBound& bound :
       fit.certificate ? fit.certificate->classes : std::vector<ClassBound>()) {
    classes.push_back({{"class", bound.label},
                       {"beta_lower", NumberOrNull(bound.beta_lower)},
                       {"beta_upper", NumberOrNull(bound.beta_upper)}});
  }
  const Json json = {{"run", fit.run},
                     {"data", fit.data},
                     {"rows", fit.schema.rows},
                     {"units", fit.schema.units},
                     {"train_rows", fit.schema.train_rows},
                     {"test_rows", fit.schema.test_rows},
                     {"rows_left_out", fit.schema.left_out + fit.schema.rows_with_missing},
                     {"missing_cells", fit.schema.missing_cells},
                     {"columns", std::move(columns)},
                     {"members", fit.training.members},
                     {"expected_rows", fit.training.expected_rows},
                     {"train_accuracy", NumberOrNull(fit.training.train_accuracy)},
                     {"test_accuracy", NumberOrNull(fit.training.test_accuracy)},
                     {"majority_share", fit.majority_share},
                     {"classes", std::move(classes)},
                     {"finished", fit.finished},
                     {"bounds", NameOf(fit.standing)},
                     {"wanted", NameOf(wanted)},
                     {"promise", fit.promise.name()},
                     {"promise_title", fit.promise.Title()},
                     {"kept", fit.promise.Require(wanted).ok()},
                     {"guards", std::move(choices)},
                     {"guard", NameOf(fit.best.method)},
                     {"report", fit.page},
                     {"predict", fit.predict},
                     {"serve", fit.serve},
                     {"warnings", fit.warnings}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lucid
