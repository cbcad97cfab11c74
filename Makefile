# For habit's sake: `make test` is `./dev test`, and so on.
COMMANDS := setup build demo test bench lint format fuzz asan tsan coverage docs clean help
.PHONY: all $(COMMANDS)
all: build
$(COMMANDS):
	@./dev $@
