// Runs made of networks in memory, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "certificate/test_support.h"
#include "lucid/ensemble/ensemble.h"
#include "pair/test_support.h"

namespace lucid {

// Imports the networks into FOLDER/NAME and opens that run.
inline Ensemble MakeRun(const TemporaryFolder& folder, const std::string& name,
                        const Network& network, const std::vector<Network>& members) {
  const std::string files = folder / (name + "-files");
  std::filesystem::create_directories(files + "/members");
  EXPECT_TRUE(SaveNetwork(network, files + "/n.safetensors").ok());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::string path = files + "/members/" + std::to_string(i) + ".safetensors";
    EXPECT_TRUE(SaveNetwork(members[i], path).ok());
  }
  const Dataset dataset = AnyDataset(std::ssize(members), network.architecture.inputs(),
                                     network.architecture.classes());
  const auto made = ImportEnsemble(dataset, files + "/n.safetensors", files + "/members",
                                   {.may_equal = true}, folder / name);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return Ensemble::Open(folder / name).value();
}

}  // namespace lucid
