// Messages of gRPC and the bodies of HTTP that say the same: whatever reads, limits, charges and
// answers one does so for the other.
#pragma once

#include <string>

#include "lucid/base/result.h"
#include "serve/exchange.h"
#include "serve/inference.pb.h"

namespace lucid {

// The body of POST /v2/models/NAME/infer with binary tensors: JSON, then the data.
struct InferenceBody {
  std::string bytes;
  std::size_t json_length = 0;
};

// Errors: data that does not fit to its datatype, or is there in two ways. What else may be wrong,
// the reader of the body finds. Parameters by which HTTP speaks of binary data have no meaning here
// and are left out.
Result<InferenceBody> BodyOf(const inference::ModelInferRequest& request);

// The path of HTTP that asks the same of a model; `what`: "/infer".
std::string ModelPath(const std::string& name, const std::string& version, std::string_view what);

// Each fills a message from the response of HTTP to the same question, of status 200. Errors: it is
// not such a response. `raw`: the request had raw contents, so the answer has, too.
Status Fill(const Response& response, inference::ServerMetadataResponse& message);
Status Fill(const Response& response, inference::ModelMetadataResponse& message);
Status Fill(const Response& response, bool raw, inference::ModelInferResponse& message);

// {"error": ...} of a response that refuses.
std::string ErrorIn(const Response& response);

}  // namespace lucid
