// The cases of a claim by windows as bytes (docs/proof.md), for the writer and the reader of
// proofs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "lucid/certificate/proof.h"

namespace lucid {

void PutCases(std::string& out, std::span<const ProofCase> cases);
// Empty, or what is wrong with them.
std::string ReadCases(ByteCursor& in, std::vector<ProofCase>& cases);
// The same for cases that were not read: all that a reader asks of them.
std::string ProblemOfCases(std::span<const ProofCase> cases);

}  // namespace lucid
