# Everything a contributor types. `make help` lists the targets.
SHELL := /usr/bin/env bash -o pipefail
.DEFAULT_GOAL := help

KUBERNETES := v1.36.3
# Compiled packages are found in the cache for any path of the checkout. Pinned tools, which compile for minutes, lie outside of it anyway.
export GOFLAGS := -trimpath
PINNED := GOFLAGS=
TOOL := $(PINNED) go tool -modfile=tools.mod
# The linker sets Kubernetes' version; without it, clients that compare versions refuse the API server.
VERSION_FLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(KUBERNETES) \
	-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36 \
	-X k8s.io/component-base/version.gitTreeState=clean
OPERATORS := aws-efs-csi-driver-operator csi-driver-operator cluster-storage-operator
# kustomize, of cli-runtime, would load plugins: the linker of a program that can keeps every method of every type. oc-storage has half the size
# without. internal/release/image builds the shipped program, with the same tag.
NO_PLUGINS := -tags kustomize_disable_go_plugin_support
# Programs for users and CI. No operator's image has them.
PROGRAMS := oc-storage
# What runs on real nodes of a devcluster, and the Debian packages that these need. REAL_NODES is empty where they can't run: tests skip, and say what
# is missing.
NODE_PROGRAMS := containerd containerd-shim-runc-v2 ctr pause
NODE_PACKAGES := busybox-static containernetworking-plugins e2fsprogs iptables runc xfsprogs
REAL_NODES := $(shell hack/has-node-packages.sh && echo yes)

# The Debian packages of the virtual machine of test/vm, which make soak starts. Without them, it says what is missing.
SOAK_PACKAGES := busybox-static e2fsprogs linux-image-cloud-amd64 nfs-common nfs-kernel-server qemu-system-x86

# The released sidecars, and stand-ins beside them, built from test/real/csidriver.
REAL_PROGRAMS := $(shell sed -n 's/^\([^\# ][^ ]*\) .*/\1/p' test/real/programs/programs.txt)
REAL_STANDINS := csidriver csi-node-driver-registrar livenessprobe efs

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z\/-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: tools devcluster operators programs ## Build the programs into bin/.

# Pods are real where the machine can run real nodes, and the platform has no stand-in for a cloud. REAL=0 fakes them anywhere.
# REAL=1 fails where pods can't be real.
DEMO_NODES := $(if $(filter 0,$(REAL))$(filter OpenStack VSphere,$(PLATFORM)),,$(if $(REAL_NODES),node-programs node-images))
# What hack/build.sh builds for the demo, in this order. It shows how far the first build is.
demo: export BUILD_LIST := devcluster kubectl $(OPERATORS) $(PROGRAMS) standin $(if $(DEMO_NODES),$(NODE_PROGRAMS) $(REAL_PROGRAMS) $(REAL_STANDINS)) demo
.PHONY: demo
demo: build standin $(DEMO_NODES) ## Install the EFS driver. PLATFORM=GCP: the drivers of that platform. KEEP=1 leaves the cluster, REAL=0 fakes pods.
	@hack/build.sh . ./test/demo bin/demo
	@bin/demo -platform '$(PLATFORM)' -real '$(REAL)' $(if $(KEEP),-keep)

# These tests run the product as programs of their own, most of them against control planes, and most of the time they wait. In the tests, the
# race detector would only cost time; env.RaceAsked says when the programs have it. Those that take longest go first, so that none is left alone at the end.
# The late ones are a lane of their own, which starts when the lanes of unit tests have ended.
LATE_TESTS := $(addprefix ./test/,rollout releases cloud prove bundle images plugin demo)
PROGRAM_TESTS := $(addprefix ./test/,e2e real drivers idle adversaries faults takeover storage guide) $(LATE_TESTS)
# All others run what they test in their own process, with the race detector.
# Make lists the packages at most once, when a recipe first needs them.
UNIT_TESTS = $(eval UNIT_TESTS := $(filter-out $(PROGRAM_TESTS) ./test/node,$(shell go list -f '.{{slice .ImportPath (len .Module.Path)}}' ./...)))$(UNIT_TESTS)
# What starts no goroutine has no races, and takes five times as long with the detector. test/rules holds them to it.
PURE_TESTS = $(filter-out ./hack/testrun ./internal/driver/accept,$(filter $(addprefix ./,internal/driver% internal/testing/canned hack/% \
	$(addprefix internal/controller/,storage storage/olm sharedvolume/crdstatus) \
	$(addprefix internal/controller/clustercsidriver/,credential nodes pendingpvc rbac watch) \
	internal/cloud/efs internal/cloud/vsphere internal/cloud/vsphere/cloudconfig internal/kube/manifest internal/kube/openshift internal/kube/volume \
	internal/release $(addprefix internal/release/,artifact olm payload) \
	$(addprefix internal/plugin/,doctor drivers efs% iam install leftovers migrate mustgather redact rollout share survey) \
	pkg/efscleanup test/rules test/rbac test/alerts test/bench/report),$(UNIT_TESTS)))
# The race detector looks at all packages but these parsers and this arithmetic. They are not ours, share nothing with our code, and with the detector
# they are half of what some tests cost. None may use sync.Map or generic atomics: the linker would take the copies of these that the detector does not
# see, and the detector would report races where there are none.
WITHOUT_RACES := $(addsuffix /...,go.yaml.in/yaml sigs.k8s.io/yaml regexp) compress/flate $(addprefix crypto/internal/fips140/,bigmod nistec/...)
WITH_RACES := -race $(patsubst %,-gcflags=%=-race=false,$(WITHOUT_RACES))
# A lane runs packages in one way, and keeps what "go test" says of them in a file of its name. PKG and RUN choose a package and a test of the lane.
# There is memory enough to collect garbage less often, and the linters have vetted it. Without symbols and tables for debuggers, a linker needs half the time.
# Tests that call make are not to know of this one.
lane = env -u MAKEFLAGS -u MAKELEVEL -u PKG -u RUN -u JSON GOGC=400 LINKCACHE='$(LINKCACHE)' go tool -modfile=$(CURDIR)/tools.mod gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg \
	--hide-summary skipped,output --jsonfile $(CURDIR)/bin/tests/$(or $(JSON),$(@F)).json -- -count=1 -vet=off -ldflags=-s $(NO_PLUGINS) \
	-toolexec '$(LINKCACHE)' $(if $(RUN),-run '$(RUN)')
# What is linked stays beside what is compiled, so that a program is linked again only when something in it has changed.
LINKED = $(shell go env GOCACHE)/csi-operators-tests
LINKCACHE = $(CURDIR)/bin/linkcache $(LINKED)
LANES := programs units pure devcluster late kubernetes

.PHONY: test test/needs test/compile $(addprefix test/,$(LANES))
# PKG=./internal/... and RUN=TestName run some tests, PKG=./devcluster/... those of the devcluster.
test: tools ## Run every test, and say what each package has cost. PKG=./test/e2e RUN=TestName runs some.
ifeq ($(PKG),)
	@go build -o bin/testrun ./hack/testrun && bin/testrun $(LANES)
else
	@mkdir -p bin/tests
	@$(MAKE) --no-print-directory test/some
endif

.PHONY: test/some
test/some: SOME = $(if $(filter-out ./devcluster/%,$(PKG)),$(shell go list -f '.{{slice .ImportPath (len .Module.Path)}}' $(filter-out ./devcluster/%,$(PKG))))
test/some:
	$(if $(SOME)$(filter ./devcluster/%,$(PKG)),,$(error PKG=$(PKG) names no package: write ./internal/kube/apply or ./internal/...))
	@set -e; run() { if [ -n "$$2" ]; then $(MAKE) --no-print-directory "test/$$1" PKG="$$2"; fi; }; \
		need() { if [ -n "$$1" ]; then shift; $(MAKE) --no-print-directory "$$@"; fi; }; \
		need '$(filter $(PROGRAM_TESTS),$(SOME))' build $(if $(RACE),race) standin; \
		need '$(filter ./test/adversaries,$(SOME))' bin/race/aws-efs-csi-driver-operator; \
		need '$(filter ./test/real,$(SOME))' real; \
		need '$(filter $(addprefix ./test/,aws bench cloud images plugin prove env/fakeaws),$(SOME))' bin/venv/moto; \
		need '$(filter ./test/aws,$(SOME))' programs; \
		need '$(filter ./test/alerts,$(SOME))' bin/promtool; \
		need '$(filter ./test/images,$(SOME))' shipped; \
		need '$(filter ./devcluster/%,$(PKG))' devcluster $(if $(REAL_NODES),node-programs); \
		run programs '$(filter $(PROGRAM_TESTS),$(SOME))'; \
		run node '$(filter ./test/node,$(SOME))'; \
		run units '$(filter-out $(PROGRAM_TESTS) $(PURE_TESTS) ./test/node,$(SOME))'; \
		run pure '$(filter $(PURE_TESTS),$(filter-out $(PROGRAM_TESTS),$(SOME)))'; \
		run kubernetes '$(patsubst ./devcluster/%,./%,$(filter ./devcluster/%,$(PKG)))'

# All is compiled before the first test starts, so that no test competes with a compiler. A linker uses one processor: two of them link side by side.
test/compile: test/needs
	@go list $(NO_PLUGINS) -test -export $(PROGRAM_TESTS) $(PURE_TESTS) >/dev/null
	@go list $(NO_PLUGINS) $(WITH_RACES) -test -export $(filter-out $(PURE_TESTS),$(UNIT_TESTS)) >/dev/null

# Without RACE=1, only a test of test/adversaries has an operator with the race detector.
test/needs: build $(if $(REAL_NODES),node-programs) $(if $(RACE),race,bin/race/aws-efs-csi-driver-operator) standin real bin/promtool bin/venv/moto shipped bin/linkcache

$(addprefix test/,$(LANES)): bin/linkcache
bin/linkcache: $(wildcard hack/linkcache/*.go) | tools
	@go build -o $@ ./hack/linkcache

# However few processors there are, several packages run at a time, and the tests themselves use one each.
test/programs:
	@export GOMAXPROCS=1; $(lane) -p 3 -parallel 2 -timeout 60m $(or $(PKG),$(filter-out $(LATE_TESTS),$(PROGRAM_TESTS)))
test/late:
	@export GOMAXPROCS=1; $(lane) -p 2 -parallel 1 -timeout 60m $(or $(PKG),$(LATE_TESTS))

# It has as much to do as the lane above, and ends after it if packages wait for each other.
test/units:
	@$(lane) $(WITH_RACES) -p 2 -timeout 20m $(or $(PKG),$(filter-out $(PURE_TESTS),$(UNIT_TESTS)))

# With one processor, a linker needs an eighth less of it; the other lanes keep the others busy.
test/pure:
	@export GOMAXPROCS=1; $(lane) -p 1 -timeout 20m $(or $(PKG),$(PURE_TESTS))

test/devcluster:
	@cd devcluster && $(PINNED) $(lane) -race -p 1 $(or $(PKG),$(addprefix ./internal/,cluster node openshift pki program standin supervise))

# A part of its own, beside "make test": it is the one that needs Linux and root, and nothing else should run meanwhile on two processors. Where the
# machine can't run real nodes, the sentence that real-nodes-check prints is all that happens.
.PHONY: test/node
test/node: tools devcluster programs $(if $(REAL_NODES),node-programs) ## Start the product's pods on a real node. RUN= chooses a test.
	@if bin/devcluster real-nodes-check; then \
		$(MAKE) --no-print-directory node-images bin/linkcache && mkdir -p bin/tests && export GOMAXPROCS=1 && \
		$(subst pkgname-and-test-fails,testname,$(lane)) -p 1 -parallel 3 -timeout 20m ./test/node; \
	else echo 'So no pod is started on a real node.'; fi

# Each driver has a devcluster of its own: the tests wait more than they compute. A list names the tests that run. They take three minutes; the limit
# is for tests that hang.
SHARES := $(addprefix test/certify/,efs ebs)
.PHONY: test/certify $(SHARES)
test/certify: tools devcluster $(if $(REAL_NODES),node-programs) ## Run a share of Kubernetes' storage tests on real nodes: the lists in test/certify/share.
	@if bin/devcluster real-nodes-check; then \
		$(MAKE) --no-print-directory node-images bin/suite bin/agnhost && hack/build.sh . ./test/certify bin/certify && \
		$(MAKE) --no-print-directory --jobs 2 --keep-going $(SHARES); \
	else echo 'So no test of Kubernetes runs.'; fi
$(SHARES):
	@bin/certify -limit 10m -driver $(@F) -tests test/certify/share/$(@F).txt -output bin/certified/share/$(@F)

# What links Kubernetes itself is tested without the race detector, which would compile all of it once more.
test/kubernetes:
	@cd devcluster && export GOMAXPROCS=1 && $(PINNED) $(lane) -p 1 -timeout 20m $(or $(PKG),./internal/command ./internal/component ./test)

.PHONY: soak
# A random seed; to repeat a failure, use its seed.
soak: build race real standin bin/venv/moto vm-programs $(if $(REAL_NODES),node-programs node-images bin/suite bin/agnhost) ## Disturb the programs for long, by a random seed. FAULT_ROUNDS=n sets how long, FAULT_SEED=n repeats one.
	@export FAULT_ROUNDS=$${FAULT_ROUNDS:-200} FAULT_SEED=$${FAULT_SEED:-$$RANDOM}; \
		echo "FAULT_ROUNDS=$$FAULT_ROUNDS FAULT_SEED=$$FAULT_SEED"; \
		NODE_PODS=distinct RACE=1 go test -race -count=1 -p 1 -timeout 6h -v $(addprefix ./test/,faults takeover drivers rollout aws adversaries bundle idle e2e storage real node demo prove) ./internal/cloud/vsphere/... && \
		go test -count=1 -timeout 1h -v ./test/vm && \
		cd devcluster && $(PINNED) go test -count=1 -timeout 1h -v -run 'TestNothingIsLeftOfRealNodes|TestAnInterruptedUp' ./test
	@$(if $(REAL_NODES),$(MAKE) release-rehearsal)
	@$(if $(REAL_NODES),for driver in efs ebs; do $(MAKE) --no-print-directory certify DRIVER=$$driver || exit 1; done)
	@hack/fuzz.sh $${FUZZ_TIME:-2m}

# What says which cluster is used, and for what, counts only on make's command line: a shell or a CI may have variables of these names for other work.
# The value is as it was typed there, with each $.
given = $(if $(filter command,$(origin $1)),$(value $1))
.PHONY: certify
certify: tools bin/suite $(if $(call given,KUBECONFIG),,devcluster node-programs node-images bin/agnhost) ## Run Kubernetes' storage tests: DRIVER=efs. KUBECONFIG= names a cluster, MANIFEST= a file, ZONE= a zone.
	@# FOCUS= and SKIP= are regular expressions for names of tests. LIST= is a file with names, of which all must run, and no other test does.
	@hack/build.sh . ./test/certify bin/certify
	@bin/certify -driver '$(call given,DRIVER)' -kubeconfig '$(call given,KUBECONFIG)' -manifest '$(call given,MANIFEST)' -zone '$(call given,ZONE)' \
		-focus '$(call given,FOCUS)' -skip '$(call given,SKIP)' -tests '$(call given,LIST)'

# Packages of Kubernetes are those of devcluster, which has compiled most of them.
.PHONY: bin/suite bin/agnhost
bin/suite: stage
	@$(PINNED) hack/build.sh devcluster ./suite $@ -- $(NO_PLUGINS) -ldflags "$(VERSION_FLAGS)"
bin/agnhost: stage
	@$(PINNED) CGO_ENABLED=0 hack/build.sh devcluster ./suite/agnhost $@ -- -ldflags "-s -w"

# The plugin is that of the release which make publish has pushed, so that it installs from there. Without REGISTRY= it installs what VERSION names.
PUBLISHED = bin/publish/tree/bundle/install
prove: export PROVE_TESTS = $(call given,TESTS)
.PHONY: prove
prove: tools $(if $(REGISTRY),,programs) ## Prove the driver on your cluster in AWS, and clean up: KUBECONFIG= ACCOUNT=. See docs/guide/prove.md.
	@mkdir -p bin/prove-path
	@if [ -z '$(REGISTRY)' ]; then cp bin/oc-storage bin/prove-path/; exit; fi; \
		grep -q 'image: $(REGISTRY)/' $(PUBLISHED)/1-catalogsource.yaml || \
		{ echo 'bin/publish has no release in $(REGISTRY): run make publish REGISTRY=$(REGISTRY)' >&2; exit 1; }; \
		(cd bundle/install && find . -name '*.yaml') | sed 's|^\./\(.*\)|"$(CURDIR)/bundle/install/\1": "$(CURDIR)/$(PUBLISHED)/\1"|' | \
		paste -s -d , - | sed 's|.*|{"Replace": {&}}|' > bin/prove-path/overlay.json && \
		go build $(NO_PLUGINS) -overlay bin/prove-path/overlay.json -o bin/prove-path/oc-storage ./cmd/oc-storage
	@hack/build.sh . ./test/prove bin/prove
	@PATH="$(CURDIR)/bin/prove-path:$$PATH" bin/prove -kubeconfig '$(call given,KUBECONFIG)' -account '$(call given,ACCOUNT)' \
		-steps '$(call given,STEPS)' $(if $(call given,CLEAN),-clean) -older '$(call given,OLDER)' -role-arn '$(call given,ROLEARN)' \
		-node-role-arn '$(call given,NODE_ROLEARN)' -zone '$(call given,ZONE)' $(if $(call given,IMAGE),-image '$(call given,IMAGE)') \
		-tests "$$PROVE_TESTS" $(if $(call given,OUTPUT),-output '$(call given,OUTPUT)')

.PHONY: bench
# BENCH_ARGS are flags of the program.
bench: build ## Measure requests, times, memory and CPU. JSON=file has the numbers.
	@hack/build.sh . ./test/bench bin/bench
	@bin/bench -json '$(or $(JSON),bin/bench.json)' $(BENCH_ARGS)

.PHONY: plots
plots: ## Draw what make bench has measured into docs/guide/plots. JSON= names reports, separated by spaces.
	@hack/build.sh . ./test/bench bin/bench
	@bin/bench -draw docs/guide/plots $(or $(JSON),bin/bench.json)

.PHONY: bundle
bundle: tools generate iam ## Write what OLM installs from into bundle/, and refuse what OLM would refuse.
	go run ./hack/bundle

.PHONY: manifests
manifests: tools ## Write what the cluster-version operator applies into manifests/, of the catalogue and the drivers.
	go run ./hack/payload

# The roles are written when they are complete.
.PHONY: package
package: tools ## Write the OLM bundle of a driver that hack/new-driver has made with --delivery olm: NAME=folder in packages/.
	@test -f 'packages/$(NAME)/config/package.yaml' || \
		{ echo 'packages/$(NAME)/config/package.yaml is missing: NAME is one of $(notdir $(PACKAGES))' >&2; exit 1; }
	@mkdir -p packages/$(NAME)/config/rbac
	@roles=$$(go run ./cmd/csi-driver-operator rights --namespace openshift-cluster-csi-drivers \
		--driver "$$(sed -n 's/^driver: //p' packages/$(NAME)/config/package.yaml)") && \
		printf '%s\n' "$$roles" > packages/$(NAME)/config/rbac/role.yaml
	go run ./hack/bundle -root packages/$(NAME)

PACKAGES = $(patsubst %/config/package.yaml,%,$(wildcard packages/*/config/package.yaml))

.PHONY: packages $(addprefix package/,$(notdir $(PACKAGES)))
packages: $(addprefix package/,$(notdir $(PACKAGES))) ## Write the OLM bundles of all drivers in packages/.
$(addprefix package/,$(notdir $(PACKAGES))):
	@$(MAKE) --no-print-directory package NAME=$(@F)

.PHONY: iam
# The account and the issuer are those of the guide's commands, which users replace.
iam: tools ## Write the IAM documents of docs/guide/install.md into docs/guide/iam.
	@mkdir -p docs/guide/iam
	@for workload in controller node; do \
		echo "docs/guide/iam/$$workload-policy.json docs/guide/iam/$$workload-trust-policy.json"; \
		go run $(NO_PLUGINS) ./cmd/oc-storage iam policy $$workload > docs/guide/iam/$$workload-policy.json && \
		go run $(NO_PLUGINS) ./cmd/oc-storage iam trust-policy $$workload --account 123456789012 \
			--oidc-provider oidc.example.com/cluster > docs/guide/iam/$$workload-trust-policy.json || exit 1; done

.PHONY: schema
schema: tools ## Write the JSON schemas of the output of oc storage into docs/guide/schema.
	go run $(NO_PLUGINS) ./hack/schema

.PHONY: release-check
release-check: tools ## Refuse to bring out VERSION as long as an image lacks its digest.
	go run ./hack/bundle check-release

.PHONY: release
release: tools generate ## Add VERSION=x.y.z to the bundle and the catalog, and nothing else.
	go run ./hack/bundle release '$(VERSION)'

.PHONY: images
images: tools ## Build the images that need no container engine, as OCI layouts in bin/images. ARCHS=amd64,arm64 chooses.
	@go run ./hack/images $(if $(ARCHS),-arch '$(ARCHS)')

.PHONY: catalog-image
catalog-image: tools ## Build the catalog for OpenShift 4.15 to 4.20 on the image of opm, which is pulled from its registry.
	@go run ./hack/images -only csi-operators-catalog-opm -arch '$(or $(ARCHS),amd64,arm64)'

# The database is https://vuln.go.dev, or a copy of it: a folder, or a .zip of that folder.
.PHONY: govulncheck
govulncheck: tools ## Look for known vulnerabilities in what the programs call. VULNDB=folder or .zip is a copy of the database.
	@hack/govulncheck.sh '$(VULNDB)' ./cmd/...

.PHONY: bump
bump: tools ## Take a newer driver or sidecar: DRIVER= or SIDECAR=name, VERSION=v1.2.3. HELP= and CHANGES= are files, COMMIT= is the driver's.
	@go run ./hack/bump -image '$(or $(DRIVER),$(SIDECAR))' -version '$(VERSION)' $(if $(DIGEST),-digest '$(DIGEST)') $(if $(CA),-ca '$(CA)') \
		$(if $(HELP),-help-text '$(HELP)') $(if $(CHANGES),-changes '$(CHANGES)') $(if $(COMMIT),-commit '$(COMMIT)')
	@$(MAKE) --no-print-directory bundle

.PHONY: must-gather-image
must-gather-image: tools ## Build the image for oc adm must-gather on OpenShift's own, which is pulled from its registry.
	@go run ./hack/images -only csi-operators-must-gather -arch '$(or $(ARCHS),amd64,arm64)'

.PHONY: storage-tests-image
storage-tests-image: tools ## Build the image in which a CI runs Kubernetes' storage tests. Its base is pulled from its registry.
	@go run ./hack/images -only efs-storage-tests -arch '$(or $(ARCHS),amd64)'

.PHONY: publish
publish: tools ## Build a release and push it to your registry: REGISTRY=quay.io/me. DRY_RUN=1 sends nothing, CA=file trusts its CA, KEY=file signs.
	@# UPSTREAM=registry.example/copies has copies of what others publish.
	@go run ./hack/publish -registry '$(REGISTRY)' $(if $(VERSION),-version '$(VERSION)') $(if $(CA),-ca '$(CA)') \
		$(if $(ARCHS),-arch '$(ARCHS)') $(if $(DRIVER),-driver '$(DRIVER)') $(if $(KEY),-key '$(KEY)') $(if $(UPSTREAM),-upstream '$(UPSTREAM)') $(if $(DRY_RUN),-dry-run)

# What a release does before it is one: minutes, on a machine that can run real nodes. It is no part of "make test".
.PHONY: release-rehearsal
release-rehearsal: tools devcluster real node-programs ## Publish, install, upgrade and mirror a release on this machine. It takes minutes, and needs real nodes.
	@hack/build.sh . ./test/rehearsal bin/rehearsal
	@bin/rehearsal $(if $(ARCHS),-arch '$(ARCHS)')

.PHONY: release-artifacts
release-artifacts: tools ## Build what people download into bin/release. DRAFT=1 builds files to try, if images lack their digests.
	@go run ./hack/artifacts $(if $(DRAFT),-draft)

# The program that is shipped is compiled otherwise than all others. Tests that build it find its parts compiled.
.PHONY: shipped
shipped: tools
	@go run ./hack/images -compile -arch "$$(go env GOARCH)"

GENERATED = config internal api bundle manifests packages docs/guide/iam docs/guide/schema
.PHONY: verify
verify: tools bundle manifests packages schema ## Regenerate what is generated and fail if it differs from what is committed.
	go mod tidy -diff
	cd devcluster && go mod tidy -diff
	cd devcluster/containerd && go mod tidy -diff
	cd test/real/csidriver && go mod tidy -diff
	@changes=$$(git status --porcelain -- $(GENERATED)); if [ -n "$$changes" ]; then \
		printf 'these files are not as "make bundle manifests packages schema" makes them; commit them:\n%s\n' "$$changes"; \
		git diff -- $(GENERATED); exit 1; fi

.PHONY: generate
generate: tools ## Write config/crd, config/rbac and deep copies from the markers in the code.
	$(TOOL) controller-gen object paths="./internal/kube/cloudcredential/...;./internal/kube/snapshot/..."
	$(TOOL) controller-gen object crd paths=./api/... output:crd:dir=config/crd
	$(TOOL) controller-gen rbac:roleName=aws-efs-csi-driver-operator paths=./cmd/aws-efs-csi-driver-operator output:rbac:dir=config/rbac

.PHONY: lint
lint: tools stage lint/docs ## Run the linters of the code and of the language.
	$(TOOL) golangci-lint run --allow-parallel-runners ./...
	cd devcluster && $(PINNED) go tool -modfile=../tools.mod golangci-lint run --allow-parallel-runners --config ../.golangci.yaml ./...
	cd devcluster/containerd && $(PINNED) go tool -modfile=../../tools.mod golangci-lint run --allow-parallel-runners --config ../../.golangci.yaml ./...
	cd test/real/csidriver && $(PINNED) go tool -modfile=../../../tools.mod golangci-lint run --allow-parallel-runners --config ../../../.golangci.yaml ./...

# Words and sentences of pages, comments and messages, and what the reference page must have. Half a minute together.
.PHONY: lint/docs
lint/docs: tools
	hack/prose.sh
	go run ./hack/reference

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin $(if $(shell command -v go),'$(LINKED)')

.PHONY: tools
tools:
	@hack/check-tools.sh

.PHONY: stage
stage: tools
	@hack/stage-devcluster.sh

.PHONY: devcluster
devcluster: stage ## Build bin/devcluster, a control plane in one program, and kubectl alone for tests.
	@$(PINNED) hack/build.sh --cached devcluster . bin/devcluster -- $(NO_PLUGINS) -ldflags "$(VERSION_FLAGS)"
	@$(PINNED) hack/build.sh --cached devcluster ./kubectl bin/clients/kubectl -- $(NO_PLUGINS) -ldflags "$(VERSION_FLAGS)"
	@ln -sf kubectl bin/clients/oc

# containerd is of another Kubernetes than devcluster, and therefore a module of its own. Its version is in devcluster/containerd/go.mod.
.PHONY: node-programs $(addprefix bin/node/,$(NODE_PROGRAMS))
node-programs: $(addprefix bin/node/,$(NODE_PROGRAMS)) ## Build what real nodes of a devcluster run: containerd and its shim, for Linux.
bin/node/pause: tools
	@$(PINNED) CGO_ENABLED=0 hack/build.sh --cached devcluster/containerd ./pause $@ -- -ldflags "-s -w"
$(addprefix bin/node/,$(filter-out pause,$(NODE_PROGRAMS))): tools
	@$(PINNED) CGO_ENABLED=0 hack/build.sh --cached devcluster/containerd github.com/containerd/containerd/v2/cmd/$(@F) $@ -- -ldflags "-s -w"

.PHONY: node-packages
node-packages: ## Print the Debian packages that real nodes of a devcluster need.
	@echo $(NODE_PACKAGES)

.PHONY: soak-packages
soak-packages: ## Print the Debian packages that the virtual machine of make soak needs.
	@echo $(SOAK_PACKAGES)

# The virtual machine has none of the libraries that a program with cgo needs.
.PHONY: vm-programs
vm-programs: tools
	@for folder in test/vm/agent cmd/aws-efs-node-health; do \
		CGO_ENABLED=0 hack/build.sh . ./$$folder bin/vm/$$(basename $$folder) -- $(NO_PLUGINS) -ldflags "-s -w" || exit 1; done

# The golden inputs of internal/controller/efshealth/mounts.
.PHONY: vm-record
vm-record: vm-programs ## Record what a kernel says about mounts that hang, in a virtual machine. It takes six minutes.
	@UPDATE=1 FAULT_ROUNDS=200 go test -count=1 -timeout 20m -v -run TestTheReader ./test/vm

.PHONY: operators
operators: tools bin/linkcache
	@for name in $(OPERATORS); do hack/build.sh . ./cmd/$$name bin/$$name -- -toolexec '$(LINKCACHE)' -ldflags "-s -w" || exit 1; done

.PHONY: programs
programs: tools bin/linkcache
	@for name in $(PROGRAMS); do hack/build.sh . ./cmd/$$name bin/$$name -- -toolexec '$(LINKCACHE)' $(NO_PLUGINS) -ldflags "-s -w" || exit 1; done

# The tests run the operator as a process of its own; the race detector has to be in that process.
.PHONY: race $(addprefix bin/race/,$(OPERATORS))
race: $(addprefix bin/race/,$(OPERATORS))
	@hack/build.sh . ./test/standin bin/race/standin -- -toolexec '$(LINKCACHE)' -race -ldflags=-s

$(addprefix bin/race/,$(OPERATORS)): tools bin/linkcache
	@hack/build.sh . ./cmd/$(@F) $@ -- -toolexec '$(LINKCACHE)' -race -ldflags=-w

.PHONY: standin
standin: tools bin/linkcache
	@hack/build.sh . ./test/standin bin/standin -- -toolexec '$(LINKCACHE)' -ldflags=-w

# Built again only when a pin changes: its sources are not in this tree. Without the tag it links the clients of every cloud in
# which Prometheus can find targets, which takes minutes.
bin/promtool: tools.mod tools.sum | tools
	@$(PINNED) hack/build.sh --cached . github.com/prometheus/prometheus/cmd/promtool $@ -- -modfile=tools.mod -tags remove_all_sd
	@touch $@

# What tests need that is written in Python: a stand-in for AWS, among others. A half of it would look like all of it. uv, which is in the list,
# installs the rest of it in a second; where only pip is told of a mirror, pip does.
bin/venv/moto: test/images/requirements.txt
	@hack/check-tools.sh python3
	@rm -rf $@ && python3 -m venv $@ && sed -n '/^uv==/,/[^\]$$/p' $< > $@/uv.txt && \
		$@/bin/python -m pip install --quiet --no-compile --require-hashes --only-binary=:all: --requirement $@/uv.txt && \
		{ $@/bin/uv pip install --quiet --no-config --python $@/bin/python --require-hashes --only-binary=:all: --requirement $< || \
		$@/bin/python -m pip install --quiet --require-hashes --only-binary=:all: --requirement $<; } && touch $@ || { rm -rf $@; exit 1; }

# The builder of the site.
bin/venv/docs: test/images/requirements-docs.txt
	@hack/check-tools.sh python3
	@echo 'installing the builder of the site into $@' >&2
	@rm -rf $@ && python3 -m venv $@ && $@/bin/python -m pip install --quiet --require-hashes --only-binary=:all: --requirement $< && touch $@ || { rm -rf $@; exit 1; }

# Seconds, once bin/venv/docs is there. Links and anchors are checked: in strict mode a warning is an error, unless MkDocs is told to be quiet.
.PHONY: docs
docs: bin/venv/docs ## Build the site of the guides into bin/site, and refuse links and anchors that lead nowhere.
	NO_MKDOCS_2_WARNING=1 bin/venv/docs/bin/mkdocs build --config-file hack/docs/mkdocs.yml

# The released sidecars, the CSI driver that they call in test/real, and stand-ins for two that no module proxy serves. They are static: images of
# test/node hold nothing else.
.PHONY: real
real: tools
	@$(PINNED) hack/build-real.sh
	@export CGO_ENABLED=0; for program in .:csidriver ./registrar:csi-node-driver-registrar ./livenessprobe:livenessprobe ./efs:efs; do \
		$(PINNED) hack/build.sh --cached test/real/csidriver $${program%:*} bin/real/$${program#*:} -- -ldflags=-w || exit 1; done

# What the pods of real nodes run besides: the operators, as "make images" builds them.
.PHONY: node-images
node-images: real
	@go run ./hack/images -changed -arch "$$(go env GOARCH)" -output bin/node/images \
		-only aws-efs-csi-driver-operator,aws-efs-node-health,cluster-storage-operator,csi-driver-operator,oc-storage

bin/devcluster bin/clients/kubectl bin/clients/oc: devcluster
$(addprefix bin/,$(PROGRAMS)): programs ;
bin/%: operators ;
