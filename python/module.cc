// lucid._lucid: the library for Python. Arrays in and out, the interpreter's lock released while
// work goes on, errors as exceptions, Ctrl-C as a stop that leaves a resumable state. The package
// around it (python/lucid) gives names, defaults and documentation.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <span>
#include <stop_token>
#include <thread>

#include "base/files.h"
#include "lucid/base/version.h"
#include "lucid/data/encoder.h"
#include "lucid/data/infer_schema.h"
#include "lucid/data/units.h"
#include "lucid/lucid.h"
#include "numeric/floating_point.h"

namespace py = pybind11;

namespace lucid::python {
namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Labels = py::array_t<std::int32_t>;

// ---- errors ----

// The classes of python/lucid/_errors.py, by the kind of error.
const char* ClassOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidInput:
      return "InvalidInput";
    case ErrorKind::kIo:
      return "FileError";
    case ErrorKind::kMismatch:
      return "Mismatch";
    case ErrorKind::kInterrupted:
      return "Stopped";
    case ErrorKind::kInternal:
      break;
  }
  return "InternalError";
}

[[noreturn]] void Throw(const Error& error) {
  const py::object kind = py::module_::import("lucid._errors").attr(ClassOf(error.kind));
  PyErr_SetString(kind.ptr(), error.message.c_str());
  throw py::error_already_set();
}

template <typename T>
T Value(Result<T> result) {
  if (!result.ok()) Throw(result.error());
  return std::move(*result);
}
void Demand(const Status& status) {
  if (!status.ok()) Throw(status.error());
}

// ---- long work ----

// Hands progress to a Python callable: callback(what, done, total). What the callable raises asks
// for a stop, and is raised when the work has ended.
class Listener {
 public:
  explicit Listener(py::object callback) : callback_(std::move(callback)) {}

  ProgressCallback Progress(std::stop_source& stop) {
    if (callback_.is_none()) return {};
    return [this, &stop](const lucid::Progress& p) {
      const auto now = std::chrono::steady_clock::now();
      const bool last = p.total > 0 && p.done >= p.total;
      if (!last && now - told_ < std::chrono::milliseconds(100)) return;
      told_ = now;
      const py::gil_scoped_acquire lock;
      if (raised_) return;
      try {
        callback_(std::string(p.what), p.done, p.total);
      } catch (py::error_already_set& error) {
        raised_ = std::make_unique<py::error_already_set>(std::move(error));
        stop.request_stop();
      }
    };
  }
  void Rethrow() {
    if (raised_) throw py::error_already_set(*raised_);
  }

 private:
  py::object callback_;
  std::chrono::steady_clock::time_point told_;
  std::unique_ptr<py::error_already_set> raised_;
};

// Runs `work(progress, stop)` in a thread of its own, so that this one sees Ctrl-C: it asks for a
// stop, waits for the work to leave its files in order, and raises KeyboardInterrupt.
template <typename Work>
auto Run(py::object callback, const Work& work) {
  Listener listener(std::move(callback));
  std::stop_source stop;
  const ProgressCallback progress = listener.Progress(stop);
  auto done = std::async(std::launch::async, [&] { return work(progress, stop.get_token()); });
  bool signalled = false;
  while (true) {
    {
      const py::gil_scoped_release unlocked;
      if (done.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready) break;
    }
    if (!signalled && PyErr_CheckSignals() != 0) {
      signalled = true;
      stop.request_stop();
      py::error_already_set interrupt;  // takes it, so that the wait goes on without it
      const py::gil_scoped_release unlocked;
      done.wait();
      const py::gil_scoped_acquire lock;
      static_cast<void>(done.get());
      throw py::error_already_set(interrupt);
    }
  }
  auto result = done.get();
  listener.Rethrow();
  return Value(std::move(result));
}

// The same for what tells no progress and cannot be asked to stop.
template <typename Work>
auto Unlocked(const Work& work) {
  auto result = [&] {
    const py::gil_scoped_release unlocked;
    return work();
  }();
  return Value(std::move(result));
}

// ---- data ----

// The table's own memory, read only; the array keeps the data set alive.
py::array Features(const py::object& owner, const Table& table) {
  py::array_t<float> array({table.rows(), table.features}, table.x.data(), owner);
  array.attr("flags").attr("writeable") = false;
  return std::move(array);
}
py::array Classes(const py::object& owner, const Table& table) {
  Labels array(static_cast<py::ssize_t>(table.y.size()), table.y.data(), owner);
  array.attr("flags").attr("writeable") = false;
  return std::move(array);
}

void AddData(py::module_& module) {
  py::class_<Dataset>(module, "Dataset")
      .def(py::init([](const std::string& folder, bool clip, std::int64_t rows) {
             return Unlocked([&] { return LoadDataset(folder, {.clip = clip, .max_rows = rows}); });
           }),
           py::arg("folder"), py::arg("clip") = false, py::arg("rows") = 0)
      .def_readonly("folder", &Dataset::directory)
      .def_property_readonly(
          "train_x",
          [](const py::object& self) { return Features(self, self.cast<const Dataset&>().train); })
      .def_property_readonly(
          "train_y",
          [](const py::object& self) { return Classes(self, self.cast<const Dataset&>().train); })
      .def_property_readonly(
          "test_x",
          [](const py::object& self) { return Features(self, self.cast<const Dataset&>().test); })
      .def_property_readonly(
          "test_y",
          [](const py::object& self) { return Classes(self, self.cast<const Dataset&>().test); })
      .def_property_readonly("features", &Dataset::features)
      .def_property_readonly("classes",
                             [](const Dataset& d) { return d.schema.label().categories; })
      .def_property_readonly("feature_names",
                             [](const Dataset& d) { return d.schema.feature_names(); })
      .def_property_readonly("units",
                             [](const Dataset& d) {
                               std::vector<std::vector<std::int64_t>> rows;
                               for (Unit& unit : UnitsOf(d.train, TableKeys::Of(d.train))) {
                                 rows.push_back(std::move(unit.rows));
                               }
                               return rows;
                             })
      .def_property_readonly("row_ids",
                             [](const Dataset& d) {
                               const TableKeys keys = TableKeys::Of(d.train);
                               py::array_t<std::int64_t> ids(d.train.rows());
                               for (std::size_t i = 0; i < keys.rows.size(); ++i) {
                                 std::memcpy(&ids.mutable_data()[i], keys.rows[i].bytes.data(), 8);
                               }
                               return ids;
                             })
      .def_property_readonly("schema", [](const Dataset& d) { return d.schema.Canonical(); });

  module.def(
      "synth2d",
      [](const std::string& folder, std::int64_t rows, std::uint64_t seed) {
        Synthetic2dOptions options;
        options.rows = rows;
        options.seed = seed;
        Demand(WriteSynthetic2d(folder, options));
      },
      py::arg("folder"), py::arg("rows"), py::arg("seed"));
}

// ---- from a run to labels ----

// The guard's secret, as the programs have it, unless another file is given.
std::string KeyFileOf(const std::string& run, const std::string& given) {
  return given.empty() ? (std::filesystem::path(run) / kGuardKeyFile).string() : given;
}

class PythonGuard {
 public:
  PythonGuard(const std::string& run, const std::string& guard, double epsilon,
              const std::string& mechanism, const std::string& key_file)
      : guard_([&] {
          GuardOptions options;
          options.guard = Value(GuardNamed(guard));
          options.mechanism = Value(MechanismNamed(mechanism));
          options.epsilon = epsilon;
          Demand(options.Validate());
          const std::string path = KeyFileOf(run, key_file);
          return Unlocked([&]() -> Result<Guard> {
            // No key is made for what cannot be opened.
            if (!std::filesystem::exists(path)) {
              LUCID_TRY(Guard::Open(run, options, GuardKey::Random()));
            }
            LUCID_ASSIGN(GuardKey key, GuardKey::LoadOrCreate(path));
            return Guard::Open(run, options, std::move(key));
          });
        }()),
        promise_(Value(PromiseOfRun(run, "",
                                    {.scalar = guard == "scalar",
                                     .domain = guard_.domain(),
                                     .epsilon = epsilon,
                                     .counted = false}))),
        encoder_(guard_.schema()),
        mending_(guard_.schema(), true, true, true) {}

  Labels Predict(const Floats& x) const {
    if (x.ndim() != 2 || x.shape(1) != guard_.features()) {
      Throw(InvalidInput("the rows must be an array of shape (rows, " +
                         std::to_string(guard_.features()) + ")"));
    }
    const float* const data = x.data();
    return AskInParts(x.shape(0), [&](std::size_t first, std::span<float> rows) {
      std::copy_n(data + first * static_cast<std::size_t>(guard_.features()), rows.size(),
                  rows.begin());
      return Ok();
    });
  }

  Labels PredictRecords(const std::vector<std::vector<std::string>>& records, bool clip) const {
    const auto features = static_cast<std::size_t>(guard_.features());
    return AskInParts(std::ssize(records), [&](std::size_t first, std::span<float> rows) -> Status {
      for (std::size_t i = 0; i * features < rows.size(); ++i) {
        const auto& record = records[first + i];
        const std::vector<std::string_view> cells(record.begin(), record.end());
        const auto encoded =
            (clip ? mending_ : encoder_).EncodeRow(cells, rows.subspan(i * features, features));
        if (!encoded.ok()) return OfRow(first + i, encoded.error());
      }
      return Ok();
    });
  }

  const Guard& guard() const { return guard_; }
  std::string promise() const { return promise_.Title(); }
  std::vector<std::string> columns() const {
    std::vector<std::string> names;
    for (const Column& column : guard_.schema().columns()) {
      if (column.is_feature()) names.push_back(column.name);
    }
    return names;
  }

 private:
  static Error OfRow(std::size_t row, const Error& error) {
    return {error.kind, "row " + std::to_string(row) + ": " + error.message};
  }

  // The labels of so many rows. fill(first, rows) writes encoded rows, the first of which is row
  // `first`. Between parts, which take a moment each, Ctrl-C is heard.
  template <typename Fill>
  Labels AskInParts(py::ssize_t count, const Fill& fill) const {
    Labels labels(count);
    std::int32_t* const out = labels.mutable_data();
    const auto features = static_cast<std::size_t>(guard_.features());
    const auto all = static_cast<std::size_t>(count);
    std::vector<float> rows;
    std::vector<GuardedAnswer> answers;
    std::size_t part = 64;
    for (std::size_t first = 0; first < all;) {
      const auto start = std::chrono::steady_clock::now();
      const std::size_t size = std::min(part, all - first);
      const Status status = [&]() -> Status {
        const py::gil_scoped_release unlocked;
        rows.resize(size * features);
        answers.resize(size);
        LUCID_TRY(fill(first, rows));
        for (std::size_t i = 0; i < size; ++i) {
          const Status canonical =
              guard_.Canonicalize(std::span(rows).subspan(i * features, features));
          if (!canonical.ok()) return OfRow(first + i, canonical.error());
        }
        guard_.AskBatch(rows, answers);
        for (std::size_t i = 0; i < size; ++i) out[first + i] = answers[i].label;
        return Ok();
      }();
      Demand(status);
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      first += size;
      const auto took = std::chrono::steady_clock::now() - start;
      if (took < std::chrono::milliseconds(50)) part = std::min<std::size_t>(2 * part, 1 << 16);
      if (took > std::chrono::milliseconds(200)) part = std::max<std::size_t>(part / 2, 1);
    }
    return labels;
  }

  Guard guard_;
  Promise promise_;
  Encoder encoder_, mending_;
};

void AddGuard(py::module_& module) {
  py::class_<PythonGuard>(module, "Guard")
      .def(py::init<const std::string&, const std::string&, double, const std::string&,
                    const std::string&>(),
           py::arg("run"), py::arg("guard") = "scalar", py::arg("epsilon") = 0.0,
           py::arg("mechanism") = "paper", py::arg("key_file") = "")
      .def("predict", &PythonGuard::Predict, py::arg("x"))
      .def("predict_records", &PythonGuard::PredictRecords, py::arg("records"),
           py::arg("clip") = false)
      .def_property_readonly("features", [](const PythonGuard& g) { return g.guard().features(); })
      .def_property_readonly(
          "classes", [](const PythonGuard& g) { return g.guard().schema().label().categories; })
      .def_property_readonly("columns", &PythonGuard::columns)
      .def_property_readonly("bounds",
                             [](const PythonGuard& g) {
                               const auto b = g.guard().bounds();
                               return std::vector<double>(b.begin(), b.end());
                             })
      .def_property_readonly("promise", &PythonGuard::promise);
}

// ---- the commands ----

// Gives the field the option of this name, if there is one.
template <typename Field>
void Take(const py::dict& options, const char* name, Field& field) {
  if (!options.contains(name)) return;
  const py::object value = options[name];
  try {
    field = value.cast<Field>();
  } catch (const py::cast_error&) {
    Throw(InvalidInput(std::string(name) + " is " + py::repr(value).cast<std::string>() +
                       ", a value that it cannot have"));
  }
}

py::dict TrainDict(const TrainSummary& s) {
  py::dict dict;
  dict["run"] = s.run;
  dict["rows"] = s.rows;
  dict["units"] = s.units;
  dict["members"] = s.members;
  dict["parameters"] = s.parameters;
  dict["partial"] = s.partial;
  dict["train_accuracy"] = s.train_accuracy;
  dict["test_accuracy"] = s.test_accuracy;
  dict["trained_now"] = s.trained_now;
  return dict;
}

py::dict Train(const Dataset& dataset, const std::string& run, const std::string& arch,
               const std::string& preset, const py::dict& options,
               std::optional<std::uint64_t> seed, int threads, py::object progress) {
  EnsembleOptions ensemble;
  ensemble.train = Value(TrainOptions::Preset(preset));
  TrainOptions& train = ensemble.train;
  Take(options, "expected_rows", train.expected_rows);
  Take(options, "epsilon", train.epsilon);
  Take(options, "delta", train.delta);
  if (train.method != TrainOptions::Method::kPlain) {
    train = RecipeFor(train, train.expected_rows > 0 ? train.expected_rows
                                                     : RoundedToOneDigit(dataset.train.rows()));
  }
  Take(options, "batch", train.batch);
  Take(options, "epochs", train.epochs);
  Take(options, "lr", train.rate);
  Take(options, "weight_decay", train.weight_decay);
  Take(options, "momentum", train.momentum);
  Take(options, "clip_norm", train.clip);
  Take(options, "standardise", train.standardise);
  Take(options, "rows_per_unit", train.rows_per_unit);
  ensemble.declare = train.method == TrainOptions::Method::kPrivate ? kDeclaredShare : 0;
  Take(options, "declare", ensemble.declare);
  Take(options, "members", ensemble.members);
  ensemble.seed_from_entropy = !seed.has_value();
  train.seed = seed.value_or(0);
  ensemble.resume = true;
  ensemble.threads = threads;
  ensemble.command = {"python", "lucid.train"};
  Demand(train.Validate());
  const Architecture architecture =
      Value(Architecture::FromName(arch, dataset.features(), dataset.classes()));
  return TrainDict(
      Run(std::move(progress), [&](const ProgressCallback& told, std::stop_token stop) {
        return TrainEnsemble(dataset, architecture, ensemble, run, told, std::move(stop));
      }));
}

py::dict Import(const Dataset& dataset, const std::string& network, const std::string& members,
                const std::string& run, const std::string& arch, bool partial, int threads,
                py::object progress) {
  ImportOptions options;
  options.partial = partial;
  options.threads = threads;
  options.command = {"python", "lucid.import_networks"};
  if (!arch.empty()) {
    options.architecture =
        Value(Architecture::FromName(arch, dataset.features(), dataset.classes()));
  }
  return TrainDict(
      Run(std::move(progress), [&](const ProgressCallback& told, std::stop_token stop) {
        return ImportEnsemble(dataset, network, members, options, run, told, std::move(stop));
      }));
}

// The certificate, as JSON.
std::string Bound(const std::string& run, double time_limit, double gap, const std::string& domain,
                  int threads, py::object progress) {
  CertifyOptions options;
  auto& native = std::get<NativeBoundOptions>(options.engine);
  native.common.time_limit = time_limit;
  native.common.gap = gap;
  if (!domain.empty()) native.domain = Value(DomainNamed(domain));
  native.common.threads = threads;
  const std::string certificate = PathIn(run, kCertificateFile);
  native.common.journal = JournalPath(certificate);
  native.common.resume = std::filesystem::exists(native.common.journal);
  native.common.command = {"python", "lucid.bound"};
  const CertifySummary made =
      Run(std::move(progress),
          [&](const ProgressCallback& told, std::stop_token stop) -> Result<CertifySummary> {
            LUCID_ASSIGN(const Ensemble ensemble, Ensemble::Open(run, told));
            if (domain.empty()) native.domain = DomainOfEarlier(ensemble, certificate);
            if (ensemble.manifest().declared) {
              options.declared = OwnDecision(ensemble.manifest());
              options.index = options.spatial = false;
            }
            return Certify(ensemble, run, options, told, std::move(stop));
          });
  return EncodeCertificate(made.certificate);
}

py::dict Check(const std::string& run, int threads, py::object progress) {
  const CheckReport report =
      Run(std::move(progress), [&](const ProgressCallback& told, std::stop_token stop) {
        return CheckRun(run, {threads}, told, std::move(stop));
      });
  py::list checks;
  for (const lucid::Check& check : report.checks) {
    py::dict one;
    one["name"] = check.name;
    one["outcome"] = std::string(NameOf(check.outcome));
    one["detail"] = check.detail;
    checks.append(one);
  }
  py::dict dict;
  dict["accepted"] = report.accepted();
  dict["checks"] = checks;
  return dict;
}

// The result, as JSON, which is RUN/evaluation.json, too.
std::string EvaluateRun(const std::string& run, const std::vector<std::string>& methods,
                        const std::vector<double>& epsilons, int threads, py::object progress) {
  EvaluationOptions options;
  for (const std::string& name : methods) options.methods.push_back(Value(MethodNamed(name)));
  options.epsilons = epsilons;
  options.threads = threads;
  return Run(std::move(progress),
             [&](const ProgressCallback& told, std::stop_token stop) -> Result<std::string> {
               LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(run));
               LUCID_ASSIGN(const Dataset dataset, LoadRunData(opened.manifest));
               LUCID_ASSIGN(Evaluation evaluation, Evaluate(run, dataset.test, &dataset.train,
                                                            options, told, std::move(stop)));
               evaluation.test = dataset.directory;
               evaluation.command = {"python", "lucid.evaluate"};
               std::string json = EvaluationJson(evaluation);
               LUCID_TRY(WriteFileAtomically(PathIn(run, kEvaluationFile), json));
               return json;
             });
}

// Where the page is.
std::string ReportOfRun(const std::string& run, const std::string& out, int threads,
                        py::object progress) {
  ReportOptions options;
  options.threads = threads;
  const std::string path = out.empty() ? PathIn(run, kReportFile) : out;
  return Run(std::move(progress),
             [&](const ProgressCallback& told, std::stop_token stop) -> Result<std::string> {
               LUCID_ASSIGN(const Report report, GatherReport(run, options, told, std::move(stop)));
               LUCID_TRY(WriteFileAtomically(path, ReportPage(report)));
               return path;
             });
}

// The result, as JSON, which is RUN/audit.json, too. `scratch`: a folder of the caller's.
std::string AuditOfRun(const std::string& run, const py::dict& given, const std::string& scratch,
                       int threads, py::object progress) {
  AuditOptions options;
  std::vector<std::string> attacks, games, accesses;
  Take(given, "attacks", attacks);
  Take(given, "games", games);
  Take(given, "accesses", accesses);
  Take(given, "epsilons", options.epsilons);
  Take(given, "targets", options.targets);
  Take(given, "duplicates", options.duplicates);
  Take(given, "retrained", options.retrained);
  Take(given, "deployed", options.deployed);
  Take(given, "seed", options.seed);
  if (bool http = false; Take(given, "http", http), http) options.http.emplace();
  for (const std::string& name : attacks) options.attacks.push_back(Value(AttackNamed(name)));
  for (const std::string& name : games) options.games.push_back(Value(WorldNamed(name)));
  for (const std::string& name : accesses) options.accesses.push_back(Value(MethodNamed(name)));
  options.scratch = scratch;
  options.threads = threads;
  Demand(options.Validate());
  return Run(std::move(progress),
             [&](const ProgressCallback& told, std::stop_token stop) -> Result<std::string> {
               LUCID_ASSIGN(const RunNetwork opened, OpenRunNetwork(run));
               LUCID_ASSIGN(const Dataset dataset, LoadRunData(opened.manifest));
               LUCID_ASSIGN(Audit audit, RunAudit(run, dataset.train, dataset.test, options, told,
                                                  std::move(stop)));
               audit.command = {"python", "lucid.audit"};
               std::string json = AuditJson(audit);
               LUCID_TRY(WriteFileAtomically(PathIn(run, kAuditFile), json));
               return json;
             });
}

std::string FitCsv(const std::string& csv, const std::string& label, const std::string& run,
                   const py::dict& given, std::optional<std::uint64_t> seed, int threads,
                   py::object progress) {
  FitOptions options;
  options.csv = csv;
  options.label = label;
  std::string promise = "labels", missing;
  Take(given, "unit", options.unit);
  Take(given, "declared", options.declared);
  Take(given, "ignore", options.ignore);
  Take(given, "promise", promise);
  Take(given, "missing", missing);
  Take(given, "test", options.test_share);
  Take(given, "arch", options.architecture);
  Take(given, "expected_rows", options.expected_rows);
  Take(given, "rows_per_unit", options.rows_per_unit);
  Take(given, "train_epsilon", options.train_epsilon);
  Take(given, "train_delta", options.train_delta);
  Take(given, "time_limit", options.time_limit);
  options.promise = Value(WantedPromiseNamed(promise));
  if (!missing.empty()) options.missing = Value(MissingCellsNamed(missing));
  options.seed = seed;
  options.threads = threads;
  options.command = {"python", "lucid.fit"};
  const FitSummary fit =
      Run(std::move(progress), [&](const ProgressCallback& told, std::stop_token stop) {
        return Fit(options, run, {told, {}}, std::move(stop));
      });
  return FitJson(fit, options.promise);
}

// lucid serve in a thread of this process, until Stop.
class PythonServer {
 public:
  PythonServer(const std::string& run, const std::string& guard, double epsilon,
               const std::string& listen, const std::string& admin, const py::dict& given)
      : server_([&] {
          ServeOptions options;
          std::string mechanism = "paper", promise;
          options.run = run;
          options.listen = listen;
          options.admin = admin;
          options.guard.guard = Value(GuardNamed(guard));
          options.guard.epsilon = epsilon;
          options.access_log = false;
          Take(given, "mechanism", mechanism);
          Take(given, "promise", promise);
          Take(given, "certificate", options.certificate);
          Take(given, "unchecked", options.unchecked);
          Take(given, "name", options.name);
          Take(given, "key_file", options.key_file);
          Take(given, "api_keys", options.api_keys);
          Take(given, "tls_certificate", options.tls_certificate);
          Take(given, "tls_key", options.tls_key);
          Take(given, "ledger", options.ledger);
          if (given.contains("ledger_mark")) {
            options.ledger_mark = given["ledger_mark"].cast<std::string>();
          }
          if (double budget = 0; given.contains("budget")) {
            Take(given, "budget", budget);
            options.budget = budget;
          }
          if (double rate = 0; given.contains("rate")) {
            Take(given, "rate", rate);
            options.rate = rate;
          }
          Take(given, "latency_floor", options.latency_floor);
          Take(given, "threads", options.threads);
          options.guard.mechanism = Value(MechanismNamed(mechanism));
          options.promise = Value(WantedPromiseNamed(promise));
          options.key_file = KeyFileOf(run, options.key_file);
          // The log is not Python's: nobody would see when a line of it is lost at exit.
          return Unlocked([&] { return Server::Open(options, [](std::string_view) {}); });
        }()),
        thread_([this](const std::stop_token& stop) { server_.Run(stop); }) {}
  ~PythonServer() { Stop(); }
  PythonServer(const PythonServer&) = delete;
  PythonServer& operator=(const PythonServer&) = delete;

  // Drains and ends; a second call does nothing.
  void Stop() {
    if (!thread_.joinable()) return;
    const py::gil_scoped_release unlocked;
    thread_.request_stop();
    thread_.join();
  }
  void Reload() {
    const Status status = [this] {
      const py::gil_scoped_release unlocked;
      return server_.Reload();
    }();
    Demand(status);
  }
  const Server& server() const { return server_; }
  bool running() const { return thread_.joinable(); }

 private:
  Server server_;
  std::jthread thread_;
};

void AddServer(py::module_& module) {
  py::class_<PythonServer>(module, "Server")
      .def(py::init<const std::string&, const std::string&, double, const std::string&,
                    const std::string&, const py::dict&>(),
           py::arg("run"), py::arg("guard"), py::arg("epsilon"), py::arg("listen"),
           py::arg("admin"), py::arg("options"))
      .def("stop", &PythonServer::Stop)
      .def("reload", &PythonServer::Reload)
      .def_property_readonly("address", [](const PythonServer& s) { return s.server().address(); })
      .def_property_readonly("admin_address",
                             [](const PythonServer& s) { return s.server().admin_address(); })
      .def_property_readonly("running", &PythonServer::running);
}

void AddCommands(py::module_& module) {
  module.def("import_networks", &Import, py::arg("dataset"), py::arg("network"), py::arg("members"),
             py::arg("run"), py::arg("arch"), py::arg("partial"), py::arg("threads"),
             py::arg("progress"));
  module.def("audit", &AuditOfRun, py::arg("run"), py::arg("options"), py::arg("scratch"),
             py::arg("threads"), py::arg("progress"));
  module.def("train", &Train, py::arg("dataset"), py::arg("run"), py::arg("arch"),
             py::arg("preset"), py::arg("options"), py::arg("seed"), py::arg("threads"),
             py::arg("progress"));
  module.def("bound", &Bound, py::arg("run"), py::arg("time_limit"), py::arg("gap"),
             py::arg("domain"), py::arg("threads"), py::arg("progress"));
  module.def("check", &Check, py::arg("run"), py::arg("threads"), py::arg("progress"));
  module.def("evaluate", &EvaluateRun, py::arg("run"), py::arg("methods"), py::arg("epsilons"),
             py::arg("threads"), py::arg("progress"));
  module.def("fit", &FitCsv, py::arg("csv"), py::arg("label"), py::arg("run"), py::arg("options"),
             py::arg("seed"), py::arg("threads"), py::arg("progress"));
  module.def("report", &ReportOfRun, py::arg("run"), py::arg("out"), py::arg("threads"),
             py::arg("progress"));
  module.def(
      "card",
      [](const std::string& run) { return CardJson(Unlocked([&] { return MakeCard(run); })); },
      py::arg("run"));
}

}  // namespace
}  // namespace lucid::python

PYBIND11_MODULE(_lucid, module) {
  module.attr("version") = lucid::Version();
  if (const lucid::Status mode = lucid::CheckFloatingPoint(); !mode.ok()) {
    throw py::import_error(mode.error().message);
  }
  lucid::python::AddData(module);
  lucid::python::AddGuard(module);
  lucid::python::AddCommands(module);
  lucid::python::AddServer(module);
}
