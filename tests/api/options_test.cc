// Every options struct of the public API takes designated initialisers, so that a call names what
// it changes and leaves the rest as it is.
#include <gtest/gtest.h>
#include <lucid/lucid.h>

namespace lucid {
namespace {

TEST(Options, TakeDesignatedInitialisers) {
  const Synthetic2dOptions points{.rows = 100, .seed = 3};
  EXPECT_EQ(points.rows, 100);
  EXPECT_EQ(points.overlap, Synthetic2dOptions().overlap);
  EXPECT_EQ(LoadOptions{.max_rows = 7}.max_rows, 7);
  EXPECT_TRUE(FetchOptions{.overwrite = true}.overwrite);
  EXPECT_EQ(InferOptions({.label = "y", .test_share = 0.1}).test_share, 0.1);
  EXPECT_EQ(TrainOptions{.batch = 10}.batch, 10);
  const EnsembleOptions ensemble{.train = {.epochs = 3, .batch = 10}, .members = 4};
  EXPECT_EQ(ensemble.train.epochs, 3);
  EXPECT_EQ(ensemble.members, 4);
  EXPECT_TRUE(ImportOptions{.partial = true}.partial);
  EXPECT_EQ(SpatialOptions{.leaves = 8}.leaves, 8);
  EXPECT_FALSE(CertifyOptions{.proof = false}.proof);
  EXPECT_EQ(CheckOptions{.threads = 2}.threads, 2);
  EXPECT_EQ(FalsifyOptions{.starts = 10}.starts, 10);
  EXPECT_EQ(GuardOptions({.guard = GuardKind::kExact, .epsilon = 1}).epsilon, 1);
  EXPECT_EQ(LedgerOptions{.location = "ledger.db"}.location, "ledger.db");
  EXPECT_EQ(EvaluationOptions{.epsilons = {1}}.epsilons.size(), 1);
  EXPECT_EQ(DpSgdOptions({.epsilon = 2, .clip = 0.5}).clip, 0.5);
  EXPECT_EQ(AlibiOptions{.epsilon = 2}.epsilon, 2);
  EXPECT_EQ(AuditOptions{.targets = 5}.targets, 5);
  EXPECT_EQ(HttpAuditOptions{.connections = 3}.connections, 3);
  EXPECT_EQ(UrlAuditOptions{.url = "http://localhost:80"}.url, "http://localhost:80");
  EXPECT_EQ(ReportOptions{.threads = 2}.threads, 2);
  EXPECT_EQ(LeakMapOptions{.grid = 20}.grid, 20);
  EXPECT_EQ(CardOptions{.answer_epsilon = 1}.answer_epsilon, 1);
  EXPECT_EQ(FitOptions({.csv = "people.csv", .label = "y"}).label, "y");
  EXPECT_EQ(ServeOptions({.run = "run", .listen = "127.0.0.1:0"}).listen, "127.0.0.1:0");
}

// What both engines ask for is one struct, which the options of each of them hold.
TEST(Options, OfAnEngineTakeThemForWhatBothEnginesAskFor) {
  const NativeBoundOptions native{.common = {.gap = 0.1, .time_limit = 60}, .save_every = 5};
  EXPECT_EQ(native.common.gap, 0.1);
  EXPECT_EQ(native.save_every, 5);
  EXPECT_EQ(native.memory, NativeBoundOptions().memory);
  const CertifyOptions certify{.engine = MilpBoundOptions{.common = {.gap = 0.2}, .tau = 0.05}};
  EXPECT_EQ(certify.bound().gap, 0.2);
  EXPECT_EQ(AblationOptions{.bound = {.common = {.gap = 0.3}}}.bound.common.gap, 0.3);
}

}  // namespace
}  // namespace lucid
