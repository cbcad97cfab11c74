#include "serve/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <utility>

#include "serve/exchange.h"

namespace lucid {
namespace {

// The path as clients spell it, with their own words left out.
std::string_view TemplateOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kPredict:
      return "/predict";
    case Endpoint::kInfer:
      return "/v2/models/{model}/infer";
    case Endpoint::kServerInfo:
      return "/v2";
    case Endpoint::kHealth:
      return "/v2/health/{probe}";
    case Endpoint::kModelInfo:
      return "/v2/models/{model}";
    case Endpoint::kModelReady:
      return "/v2/models/{model}/ready";
    case Endpoint::kModelConfig:
      return "/v2/models/{model}/config";
    case Endpoint::kModelStats:
      return "/v2/models/{model}/stats";
    case Endpoint::kOpenApi:
      return "/openapi.json";
    case Endpoint::kOther:
      break;
  }
  return "-";
}

// UTC with microseconds. The date is worked out once a second and thread.
std::string Timestamp() {
  using std::chrono::floor, std::chrono::seconds, std::chrono::microseconds;
  const auto now = std::chrono::system_clock::now();
  const auto second = floor<seconds>(now);
  thread_local std::chrono::sys_seconds last;
  thread_local std::string date;
  if (date.empty() || second != last) {
    date = fmt::format("{:%Y-%m-%dT%H:%M:%S}",
                       fmt::gmtime(std::chrono::system_clock::to_time_t(second)));
    last = second;
  }
  return fmt::format("{}.{:06}Z", date, floor<microseconds>(now - second).count());
}

}  // namespace

ServerLog::ServerLog(LogSink sink, bool json, bool access)
    : sink_(std::move(sink)), json_(json), access_(access), thread_([this] { Run(); }) {}

ServerLog::~ServerLog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ServerLog::Access(const AccessRecord& record) {
  if (!access_) return;
  const auto microseconds =
      std::chrono::duration_cast<std::chrono::microseconds>(record.latency).count();
  const std::string_view account = record.account.empty() ? "-" : record.account;
  const std::string_view method = record.method.empty() ? "-" : record.method;
  const std::string_view trace = record.trace_parent;
  if (json_) {
    Add(fmt::format(R"({{"time":"{}","method":{},"path":"{}","status":{},"bytes":{},)"
                    R"("microseconds":{},"key":"{}"{}}})",
                    Timestamp(), JsonText(method), TemplateOf(record.endpoint), record.status,
                    record.bytes, microseconds, account,
                    trace.empty() ? "" : fmt::format(R"(,"traceparent":"{}")", trace)));
  } else {
    Add(fmt::format("{} {} {} {} {} bytes {} us key {}{}{}", Timestamp(), method,
                    TemplateOf(record.endpoint), record.status, record.bytes, microseconds, account,
                    trace.empty() ? "" : " trace ", trace));
  }
}

void ServerLog::Event(std::string_view level, std::string_view message) {
  Add(json_ ? fmt::format(R"({{"time":"{}","level":"{}","message":{}}})", Timestamp(), level,
                          JsonText(message))
            : fmt::format("{} {}: {}", Timestamp(), level, message));
}

void ServerLog::Add(std::string_view line) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() + line.size() >= kMaxWaiting) {
      ++left_out_;
      return;
    }
    was_empty = waiting_.empty();
    waiting_.append(line) += '\n';
  }
  if (was_empty) wake_.notify_one();
}

void ServerLog::Run() {
  constexpr std::chrono::milliseconds kGather{20};
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    wake_.wait_for(lock, kGather, [this] { return ending_; });
    if (waiting_.empty()) return;
    std::string lines = std::exchange(waiting_, {});
    const std::int64_t left_out = std::exchange(left_out_, 0);
    lock.unlock();
    if (left_out > 0) lines += fmt::format("{} lines of the log were left out\n", left_out);
    sink_(lines);
    lock.lock();
  }
}

}  // namespace lucid
