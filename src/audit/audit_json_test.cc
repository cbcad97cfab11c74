#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lucid/audit/audit.h"

namespace lucid {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Audit SomeAudit() {
  Audit audit;
  audit.version = "1";
  AuditRow row;
  row.attack = AuditAttack::kTiming;
  row.access = "scalar";
  row.world = World::kLeaveOneOut;
  row.epsilon_lower = kNan;
  row.claimed = 2;
  row.holds = false;
  row.welch_t = -3.5;
  row.e_value = 12;
  audit.rows = {row};
  audit.checks = {{"replay", "to the bit", "3 differ", false}};
  audit.left_out = {"the exact guard"};
  audit.notes = {"the schema is held fixed"};
  return audit;
}

TEST(AuditJson, IsReadBackAsItWas) {
  const std::string text = AuditJson(SomeAudit());
  const Result<Audit> read = ParseAudit(text, "f");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(AuditJson(*read), text);
  EXPECT_FALSE(read->Holds());
  EXPECT_FALSE(read->guards_digest);
  Audit guarded = SomeAudit();
  guarded.guards_digest = Sha256Of("bounds");
  EXPECT_EQ(ParseAudit(AuditJson(guarded), "f").value().guards_digest, guarded.guards_digest);
}

TEST(AuditJson, WhatIsNoAuditIsRefused) {
  EXPECT_FALSE(ParseAudit("", "f").ok());
  EXPECT_FALSE(ParseAudit("{}", "f").ok());
  std::string text = AuditJson(SomeAudit());
  text.replace(text.find("timing"), 6, "liming");
  EXPECT_FALSE(ParseAudit(text, "f").ok());
}

}  // namespace
}  // namespace lucid
