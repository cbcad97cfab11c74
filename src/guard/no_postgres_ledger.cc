// Stands in for postgres_ledger.cc where the part POSTGRES is left out.
#include "base/left_out.h"
#include "guard/ledger_store.h"

namespace lucid {
namespace {

Error NoPostgres() {
  return LeftOut("ledgers in PostgreSQL", "LUCID_POSTGRES", "libpq (libpq-dev)");
}

}  // namespace

Status CreatePostgresLedger(const LedgerOptions&, const LedgerName&) { return NoPostgres(); }

Result<std::unique_ptr<LedgerStore>> OpenPostgresLedger(const std::string&, const Digest&) {
  return NoPostgres();
}

}  // namespace lucid
