# Few targets, each what CI runs. `make help` lists them.
PYTHON ?= python3.11
DEV = $(PYTHON) -m devcluster
IN_VENV = VENV="$$($(DEV) venv dev)" && export PATH="$$VENV/bin:$$PATH" PYTHONPATH=operator:connector:router:.
SOURCES = operator connector router devcluster demo tools tests

.DEFAULT_GOAL := help
.PHONY: help demo test faults check generate format env lock images down

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

demo: ## cluster up, chart installed, a pool and a group applied, completions through the pool, a role scaled (root)
	@$(PYTHON) -m demo

test: ## all test tiers: unit, api, cluster, node; ARGS="-k name" narrows
	@$(DEV) build
	@$(IN_VENV) && python -m pytest $(ARGS)

faults: ## every scenario with each of its writes cut, refused or lost (a subset of this is in `make test`)
	@$(IN_VENV) && KVPOOL_FAULTS=all python -m pytest tests/faults $(ARGS)

check: ## lint, types, layers, generated files
	@$(IN_VENV) && ruff format --check $(SOURCES) && ruff check $(SOURCES) && mypy && lint-imports --no-cache \
	  && python -m tools.generate --check
	@echo "check passed"

generate: ## write the generated files anew: CRDs, chart pieces, reference pages
	@$(IN_VENV) && python -m tools.generate

format: ## format the sources
	@$(IN_VENV) && ruff format $(SOURCES) && ruff check --fix $(SOURCES)

env: ## shell exports for a person: eval "$$(make env)" gives kubectl, helm and KUBECONFIG
	@$(DEV) env

lock: ## pin requirements/*.in anew, by hash
	@bash requirements/lock.sh

images: ## build the images from the Dockerfile and load them into the node cluster if it is up
	@$(DEV) images

down: ## end the clusters and remove every trace of them
	@$(DEV) down --all
	@$(DEV) leftovers
