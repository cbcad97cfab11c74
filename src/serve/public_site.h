// What clients see: the Open Inference Protocol v2 and /predict.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "admission/api_keys.h"
#include "admission/client_counts.h"
#include "admission/fair_queue.h"
#include "admission/rate_limiter.h"
#include "lucid/data/schema.h"
#include "serve/exchange.h"
#include "serve/label_request.h"
#include "serve/log.h"

namespace lucid {

// What outlives a reload.
struct SiteState {
  // threads: that read requests for labels and answer them; 0: whoever asks does.
  explicit SiteState(ServerLog& server_log, int threads = 0)
      : log(server_log),
        queue(threads, [this](std::string_view what) { log.Event("error", what); }) {}
  ServerLog& log;
  Metrics metrics;
  RateLimiter rate_limiter;
  ClientCounts client_counts;
  std::atomic<bool> draining{false};
  FairQueue queue;  // last: what runs in it uses the others
};

struct PublicSiteOptions {
  std::string name = "lucid";
  LabelRequestLimits limits;
  std::optional<double> rate;         // of clients whose key says nothing
  std::int64_t body_bytes = 1 << 20;  // at most, of a body that is decompressed
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
  void OnSend(const Exchange& exchange, const Response& response) const override;

 private:
  struct Route;
  std::optional<Route> RouteOf(std::string_view path) const;
  std::optional<Response> AdmitClient(Exchange& exchange) const;
  void Complain(const std::string& what) const;
  std::variant<LabelRequest, Response> ReadRequest(const Exchange& exchange,
                                                   std::string_view body) const;
  Response Refuse(const Error& error) const;
  void AnswerReady(std::string fields, Reply reply) const;
  void AnswerLabels(const Exchange& exchange, std::string_view body, Reply reply) const;
  Response EncodeInference(const std::string& id, const std::vector<std::int32_t>& labels,
                           bool binary) const;
  Response EncodePredictions(const std::vector<std::int32_t>& labels) const;
  std::string DescribeModel(const Schema& schema) const;
  std::string DescribeConfig(const Schema& schema) const;
  std::string DescribeTraffic(const Client& client) const;

  PublicSiteOptions options_;
  LabelRequestReader reader_;
  std::shared_ptr<const Labeller> labeller_;
  std::shared_ptr<const ApiKeys> keys_;
  SiteState& state_;
  std::string name_json_;                      // the model's name as a JSON text
  std::vector<std::string> class_names_json_;  // as JSON texts
  std::string model_json_, config_json_;
  mutable std::atomic<std::int64_t> last_complaint_{0};  // second of the steady clock
};

}  // namespace lucid
