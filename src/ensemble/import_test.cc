#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "base/files.h"
#include "ensemble/run_spec.h"
#include "ensemble/test_support.h"
#include "lucid/ensemble/ensemble.h"
#include "support/scratch_folder.h"

namespace lucid {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::int64_t kRows = 9;

ImportOptions Partial() {
  ImportOptions options;
  options.partial = true;
  return options;
}

ImportOptions Only(const char* architecture) {
  ImportOptions options;
  options.architecture = Architecture::FromName(architecture, 3, 2).value();
  return options;
}

class ImportTest : public testing::Test {
 protected:
  ImportTest() {
    fs::create_directories(root_ + "/members");
    for (std::int64_t row = -1; row < kRows; ++row) Save(row, FileOf(row));
  }

  Network Made(std::int64_t row) const {
    Network network{net_, {}};
    Stream stream(7, "member", static_cast<std::uint64_t>(row + 1));
    for (std::int64_t i = 0; i < net_.parameters(); ++i) {
      network.parameters.push_back(static_cast<float>(stream.Normal()));
    }
    return network;
  }
  std::string FileOf(std::int64_t row) const {
    return row < 0 ? root_ + "/n.safetensors"
                   : root_ + "/members/member-" + std::to_string(row) + ".safetensors";
  }
  void Save(std::int64_t row, const std::string& path) const {
    ASSERT_TRUE(SaveNetwork(Made(row), path).ok());
  }
  Result<TrainSummary> Import(const std::string& members, const ImportOptions& options = {},
                              const std::string& run = "run") const {
    return ImportEnsemble(dataset_, FileOf(-1), root_ + "/" + members, options, root_ + "/" + run);
  }
  std::string Message(const std::string& members, const ImportOptions& options = {}) const {
    const auto summary = Import(members, options, "refused");
    EXPECT_FALSE(fs::exists(root_ + "/refused/" + kManifestFile));
    return summary.ok() ? "accepted" : summary.error().message;
  }

  const std::string root_ = ScratchFolder();
  const Dataset dataset_ = SmallDataset(kRows);
  const Architecture net_ = Architecture::FromName("2x4", 3, 2).value();
};

TEST_F(ImportTest, AFolderOfFilesBecomesARun) {
  const auto summary = Import("members");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(summary->complete);
  EXPECT_FALSE(summary->partial);
  const auto run = Ensemble::Open(root_ + "/run");
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_EQ(run->members(), kRows);
  EXPECT_EQ(run->network().parameters, Made(-1).parameters);
  for (std::int64_t i = 0; i < kRows; ++i) {
    EXPECT_EQ(run->RowOf(i), i);
    EXPECT_EQ(run->Member(i).parameters, Made(i).parameters);
  }
  EXPECT_TRUE(IsImported(run->manifest().training));
  EXPECT_EQ(run->manifest().train_accuracy, Accuracy(Evaluator(Made(-1)), dataset_.train));
}

TEST_F(ImportTest, ImportedAgainItIsTheSameRunAndOtherNetworksAreAnother) {
  ASSERT_TRUE(Import("members").ok());
  const auto again = Import("members");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->trained_now, 0);
  Save(5, FileOf(4));
  const auto other = Import("members");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message, HasSubstr("another run"));
}

TEST_F(ImportTest, RowsWithoutANetworkNeedConsentAndMarkTheRun) {
  for (const std::int64_t row : {0, 3, 4, 8}) fs::remove(FileOf(row));
  EXPECT_THAT(Message("members"), HasSubstr("none without row 0, 3, 4, 8; set the option partial"));
  const auto summary = Import("members", Partial());
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_TRUE(summary->partial);
  const auto run = Ensemble::Open(root_ + "/run");
  ASSERT_TRUE(run.ok()) << run.error().message;
  EXPECT_TRUE(run->manifest().partial);
  const std::vector<std::int64_t> rows = {1, 2, 5, 6, 7};
  ASSERT_EQ(run->members(), 5);
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(run->RowOf(i), rows[i]);
    EXPECT_EQ(run->Member(i).parameters, Made(rows[i]).parameters);
  }
}

TEST_F(ImportTest, ChangedRowsOfAPartialRunAreCaught) {
  for (const std::int64_t row : {0, 3}) fs::remove(FileOf(row));
  ASSERT_TRUE(Import("members", Partial()).ok());
  const std::string store = root_ + "/run/" + kEnsembleFile;
  const std::string manifest = root_ + "/run/" + kManifestFile;
  const std::string whole = ReadTextFile(store).value(), text = ReadTextFile(manifest).value();
  const auto header = SafetensorsHeader::Read(store).value();
  for (const auto& [at, row] : {std::pair{1, 2}, {1, -1}, {7, 9}, {0, 0}}) {
    std::string bytes = whole;
    bytes[header.tensors()[0].begin + 8 * at] = static_cast<char>(row);
    if (row < 0) bytes.replace(header.tensors()[0].begin + 8 * at, 8, 8, '\xff');
    ASSERT_TRUE(WriteFileAtomically(store, bytes).ok());
    EXPECT_THAT(Ensemble::Open(root_ + "/run").error().message, HasSubstr("SHA-256"));
    // Even with a manifest that vouches for the changed file.
    std::string edited = text;
    const std::string before = Sha256Of(whole).Hex();
    edited.replace(edited.find(before), 64, Sha256Of(bytes).Hex());
    ASSERT_TRUE(WriteFileAtomically(manifest, edited).ok());
    EXPECT_THAT(Ensemble::Open(root_ + "/run").error().message, HasSubstr("ascending"));
    ASSERT_TRUE(WriteFileAtomically(manifest, text).ok());
  }
}

TEST_F(ImportTest, NamesThatDoNotTellTheRowAreRefused) {
  Save(0, root_ + "/members/2x50-3.safetensors");
  EXPECT_THAT(Message("members"), HasSubstr("exactly one number"));
  fs::rename(root_ + "/members/2x50-3.safetensors", root_ + "/members/last.safetensors");
  EXPECT_THAT(Message("members"), HasSubstr("exactly one number"));
  fs::rename(root_ + "/members/last.safetensors", root_ + "/members/003.safetensors");
  EXPECT_THAT(Message("members"), HasSubstr("two networks without row 3"));
  fs::rename(root_ + "/members/003.safetensors", root_ + "/members/9.safetensors");
  EXPECT_THAT(Message("members"), HasSubstr("without row 9, but rows go from 0 to 8"));
  EXPECT_THAT(Message("nowhere"), HasSubstr("nowhere"));
  fs::create_directories(root_ + "/empty");
  EXPECT_THAT(Message("empty", Partial()), HasSubstr("holds no network"));
}

TEST_F(ImportTest, MembersOfAnotherShapeOrWithoutFiniteWeightsAreRefusedByName) {
  Network other{Architecture::FromName("2x5", 3, 2).value(), {}};
  other.parameters.resize(static_cast<std::size_t>(other.architecture.parameters()), 1);
  ASSERT_TRUE(SaveNetwork(other, FileOf(6)).ok());
  EXPECT_THAT(Message("members"), HasSubstr("member-6.safetensors: its architecture is"));
  Network infinite = Made(6);
  infinite.parameters[3] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(SaveNetwork(infinite, FileOf(6)).ok());
  EXPECT_THAT(Message("members"), HasSubstr("member-6.safetensors: holds a parameter that is not"));
  Save(6, FileOf(6));
  EXPECT_THAT(Message("members", Only("2x5")), HasSubstr("n.safetensors: its architecture is"));
}

TEST_F(ImportTest, AStoreOfOursIsAFileOfMembers) {
  ASSERT_TRUE(Import("members").ok());
  const auto summary = Import("run/ensemble.safetensors", {}, "again");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(Sha256OfFile(root_ + "/run/" + kEnsembleFile).value(),
            Sha256OfFile(root_ + "/again/" + kEnsembleFile).value());
  // N in the file has to be the N given.
  Save(3, FileOf(-1));
  EXPECT_THAT(Message("run/ensemble.safetensors"), HasSubstr("is not the network N"));
}

TEST_F(ImportTest, StackedNetworksWithoutRowsAreAllRowsInOrder) {
  const auto write = [&](std::int64_t networks, const std::vector<std::int64_t>& rows) {
    std::vector<Tensor> tensors;
    for (const ParameterTensor& p : ParameterTensors(net_)) {
      Tensor tensor{.name = p.name, .shape = {networks}};
      tensor.shape.insert(tensor.shape.end(), p.shape.begin(), p.shape.end());
      tensors.push_back(tensor);
    }
    if (!rows.empty()) {
      tensors.push_back({.name = "rows",
                         .type = TensorType::kI64,
                         .shape = {static_cast<std::int64_t>(rows.size())}});
    }
    std::string bytes = SafetensorsHeader::Build(tensors, {}).Encode();
    for (const ParameterTensor& p : ParameterTensors(net_)) {
      for (std::int64_t i = 0; i < networks; ++i) {
        const Network network = Made(rows.empty() ? i : rows[i]);
        bytes.append(reinterpret_cast<const char*>(network.parameters.data() + p.offset),
                     static_cast<std::size_t>(p.count) * sizeof(float));
      }
    }
    bytes.append(reinterpret_cast<const char*>(rows.data()), rows.size() * 8);
    EXPECT_TRUE(WriteFileAtomically(root_ + "/stacked.safetensors", bytes).ok());
  };
  write(kRows, {});
  ASSERT_TRUE(Import("members").ok());
  const auto summary = Import("stacked.safetensors", {}, "stacked");
  ASSERT_TRUE(summary.ok()) << summary.error().message;
  EXPECT_EQ(Sha256OfFile(root_ + "/run/" + kEnsembleFile).value(),
            Sha256OfFile(root_ + "/stacked/" + kEnsembleFile).value());
  write(5, {});
  EXPECT_THAT(Message("stacked.safetensors", Partial()), HasSubstr("'rows' (I64 [5])"));
  write(3, {7, 2, 5});
  EXPECT_THAT(Message("stacked.safetensors"), HasSubstr("the option partial"));
  ASSERT_TRUE(Import("stacked.safetensors", Partial(), "three").ok());
  const auto run = Ensemble::Open(root_ + "/three");
  EXPECT_EQ(run->RowOf(0), 2);
  EXPECT_EQ(run->Member(2).parameters, Made(7).parameters);
  write(3, {7, 2, 7});
  EXPECT_THAT(Message("stacked.safetensors", Partial()), HasSubstr("without row 7"));
}

}  // namespace
}  // namespace lucid
