#include <algorithm>
#include <nlohmann/json.hpp>

#include "lucid/report/leak_picture.h"

namespace lucid {
namespace {

using Json = nlohmann::ordered_json;

Json Share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? Json(nullptr) : Json(static_cast<double>(part) / static_cast<double>(whole));
}

Json ClassJson(const ClassLeak& leak) {
  Json json = {{"class", leak.label},
               {"name", leak.name},
               {"points", leak.points},
               {"leaking", leak.leaking},
               {"leaking_share", Share(leak.leaking, leak.points)},
               {"test_rows", leak.test_rows},
               {"test_leaking", leak.test_leaking},
               {"beta_lower", nullptr},
               {"witness", nullptr},
               {"rows_that_matter", leak.rows_that_matter},
               {"strongest_row", nullptr},
               {"strongest_points", leak.strongest_points}};
  if (leak.witness) {
    json["beta_lower"] = leak.beta_lower;
    json["witness"] = {{"x", leak.witness->x},
                       {"confidence", leak.witness->confidence},
                       {"row", leak.witness->row}};
  }
  if (leak.strongest_row >= 0) json["strongest_row"] = leak.strongest_row;
  return json;
}

}  // namespace

std::string LeakJson(const LeakMap& map, const Manifest& manifest) {
  Json classes = Json::array(), rows = Json::array();
  for (const ClassLeak& leak : map.classes) classes.push_back(ClassJson(leak));
  for (std::size_t k = 0; k < map.drawn.size(); ++k) {
    rows.push_back({{"row", map.influences[k].row}, {"points", map.influences[k].points}});
  }
  const Json document = {{"grid", map.grid},
                         {"points", map.points()},
                         {"leaking", map.leaking()},
                         {"leaking_share", Share(map.leaking(), map.points())},
                         {"test_rows", map.test_rows},
                         {"test_leaking", map.test_leaking},
                         {"test_leaking_share", Share(map.test_leaking, map.test_rows)},
                         {"training_rows", map.rows},
                         {"members", map.members},
                         {"partial", manifest.partial},
                         {"rows_that_matter", map.influences.size()},
                         {"classes", std::move(classes)},
                         {"rows", std::move(rows)},
                         {"hashes",
                          {{"run_key", manifest.run_key.Hex()},
                           {"network", manifest.network_digest.Hex()},
                           {"ensemble", manifest.ensemble_digest.Hex()}}}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lucid
