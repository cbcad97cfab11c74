// What clients see: the Open Inference Protocol v2 and /predict.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lucid/data/schema.h"
#include "serve/api_keys.h"
#include "serve/exchange.h"
#include "serve/label_request.h"
#include "serve/log.h"
#include "serve/rate_limiter.h"

namespace lucid {

// What outlives a reload.
struct SiteState {
  explicit SiteState(ServerLog& server_log) : log(server_log) {}
  ServerLog& log;
  Metrics metrics;
  RateLimiter rate_limiter;
  std::atomic<bool> draining{false};
};

struct PublicSiteOptions {
  std::string name = "lucid";
  LabelRequestLimits limits;
  std::optional<double> rate;  // of clients whose key says nothing
};

// Health and /openapi.json are for everybody, the rest for clients with a key. Responses hold
// labels and what the sender did wrong; never anything about confidence, bounds, noise or budgets.
class PublicSite : public Site {
 public:
  // keys null: everybody is one anonymous client. Keeps a reference to `state`.
  PublicSite(PublicSiteOptions options, const Schema& schema,
             std::shared_ptr<const Labeller> labeller, std::shared_ptr<const ApiKeys> keys,
             SiteState& state);

  std::optional<Response> Admit(Exchange& exchange) const override;
  void Answer(Exchange& exchange, std::string_view body, Reply reply) const override;

 private:
  struct Route;
  std::optional<Route> RouteOf(std::string_view path) const;
  std::optional<Response> AdmitClient(Exchange& exchange) const;
  void Complain(const std::string& what) const;
  void AnswerLabels(Exchange& exchange, std::string_view body, Reply reply) const;
  Response EncodeInference(const std::string& id, const std::vector<std::int32_t>& labels) const;
  Response EncodePredictions(const std::vector<std::int32_t>& labels) const;
  std::string DescribeModel(const Schema& schema) const;

  PublicSiteOptions options_;
  LabelRequestReader reader_;
  std::shared_ptr<const Labeller> labeller_;
  std::shared_ptr<const ApiKeys> keys_;
  SiteState& state_;
  std::string name_json_;                      // the model's name as a JSON text
  std::vector<std::string> class_names_json_;  // as JSON texts
  std::string model_json_;
  mutable std::atomic<std::int64_t> last_complaint_{0};  // second of the steady clock
};

}  // namespace lucid
