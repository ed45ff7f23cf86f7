BEGIN TRANSACTION;
CREATE TABLE agent_activations (
	id VARCHAR NOT NULL, 
	agent_id VARCHAR NOT NULL, 
	ordinal INTEGER NOT NULL, 
	"before" VARCHAR, 
	"after" VARCHAR NOT NULL, 
	deployer_kind VARCHAR NOT NULL, 
	deployer_id VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_agent_activations_ordinal UNIQUE (agent_id, ordinal), 
	FOREIGN KEY(agent_id) REFERENCES agents (id)
);
INSERT INTO "agent_activations" VALUES('act_da4591f777c60894ec56a113','agt_f392ab2219c221d8b7d2dbc5',1,NULL,'rev_2cb1f6bde1c114aace54dbbe','api_key','a7513126-aef6-47b3-8a24-ead8e3bda233','create','2026-11-30 16:19:54.794712');
CREATE TABLE agent_deployments (
	id VARCHAR NOT NULL, 
	agent_id VARCHAR NOT NULL, 
	ordinal INTEGER NOT NULL, 
	revision_id VARCHAR NOT NULL, 
	result VARCHAR NOT NULL, 
	via VARCHAR NOT NULL, 
	deployer_kind VARCHAR NOT NULL, 
	deployer_id VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	log JSON NOT NULL, 
	idempotency_key VARCHAR, 
	request_hash VARCHAR, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_agent_deployments_ordinal UNIQUE (agent_id, ordinal), 
	CONSTRAINT uq_agent_deployments_idempotency UNIQUE (agent_id, idempotency_key), 
	FOREIGN KEY(agent_id) REFERENCES agents (id), 
	FOREIGN KEY(revision_id) REFERENCES agent_revisions (id)
);
INSERT INTO "agent_deployments" VALUES('dep_6d411f88903e762f39a13788','agt_f392ab2219c221d8b7d2dbc5',1,'rev_2cb1f6bde1c114aace54dbbe','created','api','api_key','a7513126-aef6-47b3-8a24-ead8e3bda233','2026-11-30 16:19:54.794712','[["ready", "revision 1: created\n"]]',NULL,NULL);
CREATE TABLE agent_revisions (
	id VARCHAR NOT NULL, 
	agent_id VARCHAR NOT NULL, 
	number INTEGER NOT NULL, 
	digest VARCHAR NOT NULL, 
	prompt TEXT NOT NULL, 
	model VARCHAR NOT NULL, 
	skill_bundle_digest VARCHAR, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_agent_revisions_number UNIQUE (agent_id, number), 
	CONSTRAINT uq_agent_revisions_digest UNIQUE (agent_id, digest), 
	FOREIGN KEY(agent_id) REFERENCES agents (id)
);
INSERT INTO "agent_revisions" VALUES('rev_2cb1f6bde1c114aace54dbbe','agt_f392ab2219c221d8b7d2dbc5',1,'sha256:6b68958a00c74542008a0723d54c3b37b690999fabc007d30da959d367bc50cd','Write.','scripted/echo',NULL,'2026-11-30 16:19:54.794712');
CREATE TABLE agent_versions (
	agent_id VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	reason VARCHAR NOT NULL, 
	deployer_kind VARCHAR NOT NULL, 
	deployer_id VARCHAR NOT NULL, 
	snapshot JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (agent_id, version), 
	FOREIGN KEY(agent_id) REFERENCES agents (id)
);
INSERT INTO "agent_versions" VALUES('agt_f392ab2219c221d8b7d2dbc5',1,'create','api_key','a7513126-aef6-47b3-8a24-ead8e3bda233','{"name": "writer", "runtime": "scripted", "revision": 1, "revision_id": "rev_2cb1f6bde1c114aace54dbbe", "model": "scripted/echo", "credential_id": null, "limits": null, "default_repo": null, "checkpoints": {"keep": 0}}','2026-11-30 16:19:54.794712');
CREATE TABLE agents (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	unique_name VARCHAR, 
	runtime VARCHAR NOT NULL, 
	revision_id VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	credential VARCHAR, 
	limits JSON, 
	default_repo VARCHAR, 
	checkpoints_kept INTEGER NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	deleted_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_agents_name UNIQUE (org_id, unique_name), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
INSERT INTO "agents" VALUES('agt_f392ab2219c221d8b7d2dbc5','f518c1e1-1f5b-4c67-9395-971713428c6f','writer','writer','scripted','rev_2cb1f6bde1c114aace54dbbe',1,NULL,NULL,NULL,0,'2026-11-30 16:19:54.794712','2026-11-30 16:19:54.794712',NULL);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0010');
CREATE TABLE api_keys (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	prefix VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	last_used_at DATETIME, 
	revoked_at DATETIME, 
	PRIMARY KEY (id), 
	FOREIGN KEY(org_id) REFERENCES organisations (id), 
	UNIQUE (hash)
);
INSERT INTO "api_keys" VALUES('a7513126-aef6-47b3-8a24-ead8e3bda233','f518c1e1-1f5b-4c67-9395-971713428c6f','first key','osb_a1a1a1a1','5088496010e902b58bab359648691b61a92b5d5fe8dae4f7b0419d54627b7f7a','2026-11-30 16:19:52.337315','2026-11-30 16:19:52.933162',NULL);
CREATE TABLE deliveries (
	id VARCHAR NOT NULL, 
	session_id VARCHAR NOT NULL, 
	destination_id VARCHAR NOT NULL, 
	event_id VARCHAR NOT NULL, 
	event_seq BIGINT NOT NULL, 
	status VARCHAR NOT NULL, 
	attempts INTEGER NOT NULL, 
	budget INTEGER NOT NULL, 
	due_at DATETIME, 
	last_attempt_at DATETIME, 
	response_code INTEGER, 
	error TEXT, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_deliveries_event UNIQUE (destination_id, event_seq), 
	FOREIGN KEY(destination_id) REFERENCES destinations (id)
);
CREATE TABLE destinations (
	id VARCHAR NOT NULL, 
	session_id VARCHAR NOT NULL, 
	url TEXT NOT NULL, 
	level VARCHAR NOT NULL, 
	types JSON, 
	include_raw BOOLEAN NOT NULL, 
	enabled BOOLEAN NOT NULL, 
	secrets JSON NOT NULL, 
	created_after_seq BIGINT NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "destinations" VALUES('dst_e5ec2bef10ac541d362d7212','ses_d25b363219a8b84e369f8923','http://127.0.0.1:9/hook','user',NULL,0,1,'[]',10,'2026-11-30 16:20:03.021878','2026-11-30 16:20:03.021878');
CREATE TABLE egress_events (
	position INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at DATETIME NOT NULL, 
	org_id VARCHAR NOT NULL, 
	sandbox_id VARCHAR NOT NULL, 
	protocol VARCHAR NOT NULL, 
	host VARCHAR NOT NULL, 
	port INTEGER NOT NULL, 
	decision VARCHAR NOT NULL, 
	reason VARCHAR, 
	address VARCHAR, 
	intercepted BOOLEAN NOT NULL, 
	secrets JSON NOT NULL, 
	withheld JSON NOT NULL, 
	bytes_out BIGINT NOT NULL, 
	bytes_in BIGINT NOT NULL, 
	lost INTEGER NOT NULL
);
CREATE TABLE event_contents (
	session_id VARCHAR NOT NULL, 
	event_id VARCHAR NOT NULL, 
	media_type VARCHAR NOT NULL, 
	data BLOB NOT NULL, 
	PRIMARY KEY (session_id, event_id)
);
CREATE TABLE events (
	session_id VARCHAR NOT NULL, 
	seq BIGINT NOT NULL, 
	id VARCHAR NOT NULL, 
	at DATETIME NOT NULL, 
	type VARCHAR NOT NULL, 
	level VARCHAR NOT NULL, 
	body JSON NOT NULL, 
	actor JSON NOT NULL, 
	turn_id VARCHAR, 
	refs JSON NOT NULL, 
	source VARCHAR, 
	content_ref VARCHAR, 
	body_bytes BIGINT, 
	"key" VARCHAR, 
	request_hash VARCHAR, 
	PRIMARY KEY (session_id, seq), 
	CONSTRAINT uq_events_key UNIQUE (session_id, "key"), 
	UNIQUE (id)
);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',1,'evt_203132b0cbb9b965ee4c4738','2026-11-30 16:19:54.931412','user.message','user','{"text": "hello"}','{"type": "human", "id": "api"}','trn_27ef6112dbcf3572fec641a2','{}','client',NULL,NULL,NULL,NULL);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',2,'evt_c8e52c09deea93f2835ba26f','2026-11-30 16:19:55.282921','sandbox.created','internal','{"sandbox": "brain", "sandbox_id": "sb-972cfb1d"}','{"type": "system", "id": "system"}',NULL,'{}',NULL,NULL,NULL,'box:sb-972cfb1d:created',NULL);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',3,'evt_16e68f6ce71250391737b786','2026-11-30 16:19:55.704326','turn.started','progress','{"turn_id": "trn_27ef6112dbcf3572fec641a2", "input_from_seq": 1, "input_to_seq": 1}','{"type": "system", "id": "system"}','trn_27ef6112dbcf3572fec641a2','{}',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',4,'evt_a4cd86558f3f90510b13d660','2026-11-30 16:19:55.771621','agent.message','progress','{"text": "I repeat."}','{"type": "agent", "id": "agent"}','trn_27ef6112dbcf3572fec641a2','{}',NULL,NULL,NULL,'rt:trn_27ef6112dbcf3572fec641a2:1',NULL);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',5,'evt_50a557de8ca9abd582aad1dc','2026-11-30 16:19:55.795233','runtime.restarted','internal','{"summary": "The turn starts over.", "code": "brain_crashed", "attempt": 1}','{"type": "system", "id": "system"}','trn_27ef6112dbcf3572fec641a2','{}',NULL,NULL,NULL,'restart:trn_27ef6112dbcf3572fec641a2:1',NULL);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',6,'evt_8ca1ba3b8c2e20b8ead86b82','2026-11-30 16:19:56.939735','agent.message','progress','{"text": "I repeat."}','{"type": "agent", "id": "agent"}','trn_27ef6112dbcf3572fec641a2','{}',NULL,NULL,NULL,'rt:trn_27ef6112dbcf3572fec641a2:2',NULL);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',7,'evt_3dcdc1f4fd559c43c794ef7a','2026-11-30 16:19:56.985409','runtime.restarted','internal','{"summary": "The turn starts over.", "code": "brain_crashed", "attempt": 2}','{"type": "system", "id": "system"}','trn_27ef6112dbcf3572fec641a2','{}',NULL,NULL,NULL,'restart:trn_27ef6112dbcf3572fec641a2:2',NULL);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',8,'evt_2c996a2005ddf6b4f52c0878','2026-11-30 16:20:02.484144','agent.message','progress','{"text": "I repeat."}','{"type": "agent", "id": "agent"}','trn_27ef6112dbcf3572fec641a2','{}',NULL,NULL,NULL,'rt:trn_27ef6112dbcf3572fec641a2:3',NULL);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',9,'evt_a959795edb48a27eb85be4e0','2026-11-30 16:20:02.835836','error.runtime','user','{"code": "brain_crashed", "message": "The connection to the agent''s engine broke off.", "retriable": false}','{"type": "system", "id": "system"}','trn_27ef6112dbcf3572fec641a2','{}',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "events" VALUES('ses_d25b363219a8b84e369f8923',10,'evt_a7c90a9870dc3117b60fc7ce','2026-11-30 16:20:02.835836','turn.completed','user','{"turn_id": "trn_27ef6112dbcf3572fec641a2", "outcome": "error", "yield_reason": "error", "active_seconds": 7.804, "error": {"code": "brain_crashed", "message": "The connection to the agent''s engine broke off.", "retriable": false}, "failed": true}','{"type": "system", "id": "system"}','trn_27ef6112dbcf3572fec641a2','{}',NULL,NULL,NULL,NULL,NULL);
CREATE TABLE held_stores (
	sandbox_id VARCHAR NOT NULL, 
	position INTEGER NOT NULL, 
	store_id VARCHAR NOT NULL, 
	PRIMARY KEY (sandbox_id, position)
);
INSERT INTO "held_stores" VALUES('sb-7d12a2ee',0,'8c93fa34-58f8-4a0a-97f2-92da376f0e06');
CREATE TABLE image_prefixes (
	org_id VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	snapshot_id VARCHAR NOT NULL, 
	last_used_at DATETIME NOT NULL, 
	PRIMARY KEY (org_id, "key"), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
CREATE TABLE images (
	org_id VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	content_hash VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	shown_manifest TEXT NOT NULL, 
	created_at DATETIME NOT NULL, 
	last_used_at DATETIME NOT NULL, 
	snapshot_id VARCHAR, 
	PRIMARY KEY (org_id, "key"), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
CREATE TABLE machines (
	id VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	template_hash VARCHAR NOT NULL, 
	image_version VARCHAR NOT NULL, 
	guest_token VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	record JSON, 
	sandbox_id VARCHAR, layers JSON DEFAULT '[]' NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "machines" VALUES('m655a7efe0b59694','claimed','h1','fake-1-75a7d8388002','49f44036d6e1d05aeeafd6c1a710a8f30ee35fef80c934abdf4e6c7ad4423c83','2026-11-30 16:19:53.493576','{"driver": "fake", "machine_id": "m655a7efe0b59694", "state": {"pid": 4194305, "start_ticks": 6411860, "port": 38273}}','sb-7d12a2ee','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]');
INSERT INTO "machines" VALUES('m9abb2d79171ce9e','claimed','h1','fake-1-75a7d8388002','8aa54ded839dc581a27359ac91b425bc351dc2f5f72f94b8c3a82a82d6431fbe','2026-11-30 16:19:54.417297','{"driver": "fake", "machine_id": "m9abb2d79171ce9e", "state": {"pid": 4194305, "start_ticks": 6411954, "port": 40219}}','sb-972cfb1d','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]');
INSERT INTO "machines" VALUES('ma7959318886f69b','ready','h1','fake-1-75a7d8388002','b8ddaa805b3cfc00b46488a70cd8e8c8200593f6ea08bc3cabe510f8240c9c24','2026-11-30 16:19:55.167367','{"driver": "fake", "machine_id": "ma7959318886f69b", "state": {"pid": 4194305, "start_ticks": 6412027, "port": 34799}}','warm','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]');
INSERT INTO "machines" VALUES('m4d83cf561a7ac23','ready','h1','fake-1-75a7d8388002','b8ddaa805b3cfc00b46488a70cd8e8c8200593f6ea08bc3cabe510f8240c9c24','2026-11-30 16:19:55.184697','{"driver": "fake", "machine_id": "m4d83cf561a7ac23", "state": {"pid": 4194305, "start_ticks": 6412030, "port": 39849}}',NULL,'["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]');
CREATE TABLE model_credentials (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	provider VARCHAR NOT NULL, 
	default_of VARCHAR, 
	name VARCHAR, 
	last4 VARCHAR NOT NULL, 
	key_version INTEGER NOT NULL, 
	ciphertext BLOB NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_model_credentials_default UNIQUE (org_id, default_of), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
INSERT INTO "model_credentials" VALUES('cred_0c47259d493c27f231c5009b','f518c1e1-1f5b-4c67-9395-971713428c6f','anthropic',NULL,'work','odel',1,X'3A89B109E4103C0B09EDCC6046C595C120FA93A390538E01B560276BC299E5A40F144DBC201EE95A76308D51DFE434B6B39EDA','2026-11-30 16:19:54.742921','2026-11-30 16:19:54.742921');
CREATE TABLE named_snapshots (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	content_hash VARCHAR NOT NULL, 
	shown_manifest TEXT NOT NULL, 
	manifest BLOB NOT NULL, 
	created_at DATETIME NOT NULL, 
	last_used_at DATETIME, 
	snapshot_id VARCHAR, 
	is_public BOOLEAN NOT NULL, 
	error TEXT, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_named_snapshots_name UNIQUE (org_id, name), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
CREATE TABLE organisations (
	id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "organisations" VALUES('f518c1e1-1f5b-4c67-9395-971713428c6f','default','2026-11-30 16:19:52.329325');
CREATE TABLE patches (
	id VARCHAR NOT NULL, 
	checkpoint_id VARCHAR NOT NULL, 
	sequence INTEGER NOT NULL, 
	script TEXT NOT NULL, 
	description TEXT, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_patches_sequence UNIQUE (checkpoint_id, sequence), 
	FOREIGN KEY(checkpoint_id) REFERENCES snapshots (id)
);
INSERT INTO "patches" VALUES('4006a178-55b6-4d68-ae75-367653948bca','68e83f5e-18e4-4360-8c37-1ffdd18eb4f4',1,'echo patched > patched',NULL,'2026-11-30 16:19:54.113612');
CREATE TABLE preview_grants (
	id VARCHAR NOT NULL, 
	sandbox_id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	port INTEGER NOT NULL, 
	token_hash VARCHAR NOT NULL, 
	created_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(sandbox_id) REFERENCES sandboxes (id), 
	FOREIGN KEY(org_id) REFERENCES organisations (id), 
	UNIQUE (token_hash)
);
CREATE TABLE previews (
	id VARCHAR NOT NULL, 
	sandbox_id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	port INTEGER NOT NULL, 
	domain VARCHAR, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_previews_port UNIQUE (sandbox_id, port), 
	FOREIGN KEY(sandbox_id) REFERENCES sandboxes (id), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
INSERT INTO "previews" VALUES('bb7ec75c-f06b-46ab-8bb7-a58a92c0e56d','sb-b2448cdb','f518c1e1-1f5b-4c67-9395-971713428c6f',3000,NULL,'2026-11-30 16:19:54.165695');
CREATE TABLE sandboxes (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	template VARCHAR NOT NULL, 
	template_hash VARCHAR NOT NULL, 
	memory_mb INTEGER NOT NULL, 
	cpu_count INTEGER NOT NULL, 
	disk_mb INTEGER NOT NULL, 
	timeout_seconds INTEGER NOT NULL, 
	environment JSON NOT NULL, 
	metadata JSON NOT NULL, 
	alias VARCHAR, 
	network_enabled BOOLEAN NOT NULL, 
	machine_id VARCHAR, 
	created_at DATETIME NOT NULL, 
	started_at DATETIME, 
	stopped_at DATETIME, 
	stop_reason VARCHAR, 
	idempotency_key VARCHAR, 
	request_hash VARCHAR, layers JSON DEFAULT '[]' NOT NULL, origin_layers JSON DEFAULT '[]' NOT NULL, workdir VARCHAR, generation INTEGER DEFAULT 0 NOT NULL, from_checkpoint VARCHAR, hibernation VARCHAR, patch_source VARCHAR, patch_position INTEGER DEFAULT 0 NOT NULL, patch_error TEXT, due_at DATETIME, hibernate_failures INTEGER DEFAULT 0 NOT NULL, last_hibernate_error TEXT, recovered INTEGER, file_url_epoch VARCHAR, scaling_locked BOOLEAN DEFAULT 0 NOT NULL, autoscale BOOLEAN DEFAULT 0 NOT NULL, autoscale_min_mb INTEGER, autoscale_max_mb INTEGER, autoscale_up_after DATETIME, autoscale_down_after DATETIME, resize_mb INTEGER, preview_token_hash VARCHAR, secret_stores JSON DEFAULT '[]' NOT NULL, egress_allowlist JSON DEFAULT '[]' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_sandboxes_idempotency UNIQUE (org_id, idempotency_key), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
INSERT INTO "sandboxes" VALUES('sb-7d12a2ee','f518c1e1-1f5b-4c67-9395-971713428c6f','running','base','h1',4096,1,20480,0,'{}','{}','worker',1,'m655a7efe0b59694','2026-11-30 16:19:53.204341','2026-11-30 16:19:53.651488',NULL,NULL,NULL,'79615e75ebd7332bede14d410b606c64ede0604707101cfa35a8a8e863913d63','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]',NULL,0,NULL,NULL,NULL,0,NULL,NULL,0,NULL,NULL,NULL,0,1,4096,8192,NULL,NULL,NULL,NULL,'["vault"]','[]');
INSERT INTO "sandboxes" VALUES('sb-b2448cdb','f518c1e1-1f5b-4c67-9395-971713428c6f','hibernated','base','h1',4096,1,20480,0,'{}','{"is": "asleep"}',NULL,1,NULL,'2026-11-30 16:19:54.119299','2026-11-30 16:19:54.153842',NULL,NULL,NULL,'6e12f165aa303c5be1e98fa85be381a95a342fc9cab47e302317faf8d40f9568','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654", "4d00c6b8bd291937778115bfe0608e6d34a7eb9804f7920b2555b8eb888d22a8"]','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]',NULL,0,NULL,'95b5ad8a-8bdd-46e2-b782-c41fc920186b',NULL,0,NULL,NULL,0,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL,'[]','[]');
INSERT INTO "sandboxes" VALUES('sb-38c850ab','f518c1e1-1f5b-4c67-9395-971713428c6f','stopped','base','h1',4096,1,20480,0,'{}','{}',NULL,1,NULL,'2026-11-30 16:19:54.312371','2026-11-30 16:19:54.449356','2026-11-30 16:19:54.476640','user_requested',NULL,'99727c50c729817c8c08a2dfb770421b47887dce6fb590a70dfee47fb19c002e','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]',NULL,0,NULL,NULL,NULL,0,NULL,NULL,0,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL,'[]','[]');
INSERT INTO "sandboxes" VALUES('sb-972cfb1d','f518c1e1-1f5b-4c67-9395-971713428c6f','running','base','h1',4096,1,20480,3600,'{}','{"oc.session": "ses_d25b363219a8b84e369f8923", "oc.role": "brain"}',NULL,0,'m9abb2d79171ce9e','2026-11-30 16:19:55.176085','2026-11-30 16:19:55.226208',NULL,NULL,'oc.session-box/ses_d25b363219a8b84e369f8923/brain/first','brain','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]','["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654"]',NULL,0,NULL,NULL,NULL,0,NULL,'2026-11-30 17:19:55.226208',0,NULL,NULL,NULL,0,0,NULL,NULL,NULL,NULL,NULL,NULL,'[]','[]');
CREATE TABLE seals (
	sandbox_id VARCHAR NOT NULL, 
	token VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	secret_id VARCHAR, 
	inherited BOOLEAN NOT NULL, 
	PRIMARY KEY (sandbox_id, token)
);
INSERT INTO "seals" VALUES('sb-7d12a2ee','osb_sealed_54cc589e3b786202693328a14eb2ba2d','TOKEN','9da906dd-b9c3-4859-9233-cc7690d78f5f',0);
CREATE TABLE secret_stores (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	unique_name VARCHAR, 
	egress_allowlist JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	deleted_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_secret_stores_name UNIQUE (org_id, unique_name), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
INSERT INTO "secret_stores" VALUES('8c93fa34-58f8-4a0a-97f2-92da376f0e06','f518c1e1-1f5b-4c67-9395-971713428c6f','vault','vault','["api.example.com"]','2026-11-30 16:19:53.035948','2026-11-30 16:19:53.035948',NULL);
CREATE TABLE secrets (
	id VARCHAR NOT NULL, 
	store_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	key_version INTEGER NOT NULL, 
	ciphertext BLOB NOT NULL, 
	hosts JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	deleted_at DATETIME, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_secrets_name UNIQUE (store_id, name), 
	FOREIGN KEY(store_id) REFERENCES secret_stores (id)
);
INSERT INTO "secrets" VALUES('9da906dd-b9c3-4859-9233-cc7690d78f5f','8c93fa34-58f8-4a0a-97f2-92da376f0e06','TOKEN',1,X'44116CFD57BE024290EFF80FCED11C73956DE8D5201149465DBE086E8F69B125ECABBD636975C8E635268D89','["api.example.com"]','2026-11-30 16:19:53.096316','2026-11-30 16:19:53.096316',NULL);
CREATE TABLE sessions (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	agent_id VARCHAR NOT NULL, 
	agent JSON NOT NULL, 
	status VARCHAR NOT NULL, 
	head BIGINT NOT NULL, 
	input_cursor BIGINT NOT NULL, 
	turn_count INTEGER NOT NULL, 
	usage JSON NOT NULL, 
	epoch BIGINT NOT NULL, 
	lease_owner VARCHAR, 
	lease_until DATETIME, 
	"key" VARCHAR, 
	idempotency_key VARCHAR, 
	request_hash VARCHAR NOT NULL, 
	metadata JSON, 
	limits JSON NOT NULL, 
	brain VARCHAR, 
	hands VARCHAR, 
	awake BOOLEAN NOT NULL, 
	active_at DATETIME NOT NULL, 
	auto_runs INTEGER NOT NULL, 
	resume_from VARCHAR, 
	origin_session VARCHAR, 
	origin_turn VARCHAR, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_sessions_key UNIQUE (org_id, "key"), 
	CONSTRAINT uq_sessions_idempotency_key UNIQUE (org_id, idempotency_key), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
INSERT INTO "sessions" VALUES('ses_d25b363219a8b84e369f8923','f518c1e1-1f5b-4c67-9395-971713428c6f','agt_f392ab2219c221d8b7d2dbc5','{"agent_id": "agt_f392ab2219c221d8b7d2dbc5", "version": 1, "revision_id": "rev_2cb1f6bde1c114aace54dbbe", "revision": 1, "digest": "sha256:6b68958a00c74542008a0723d54c3b37b690999fabc007d30da959d367bc50cd", "prompt": "Write.", "prompt_hash": "sha256:76050b6862606edfa19c0bc54339d800c6f7016d89c55c539ff58d21a462d2a1", "model": "scripted/echo", "runtime": "scripted", "credential": "managed", "skill_bundle_digest": null, "limits": {"tokens": null, "turn_seconds": null, "turns": null}, "checkpoints_kept": 0}','failed',10,1,1,'{"active_ms": 7804, "reported_turns": 0, "unreported_turns": 1, "totals": null}',3,NULL,NULL,'one',NULL,'0981d9c0a14177b4d66737c1b9af00a3c24c4037600f9129ca20bd088204af4a','{"a": "b"}','{"tokens": null, "turn_seconds": null, "turns": null}','sb-972cfb1d',NULL,1,'2026-11-30 16:20:02.835836',0,'trn_27ef6112dbcf3572fec641a2',NULL,NULL,'2026-11-30 16:19:54.931412','2026-11-30 16:20:02.835836');
CREATE TABLE skill_bundles (
	org_id VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	files JSON NOT NULL, 
	PRIMARY KEY (org_id, digest), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
CREATE TABLE snapshots (
	id VARCHAR NOT NULL, 
	org_id VARCHAR NOT NULL, 
	sandbox_id VARCHAR, 
	purpose VARCHAR NOT NULL, 
	kind VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	unique_name VARCHAR, 
	created_at DATETIME NOT NULL, 
	ready_at DATETIME, 
	failed_at DATETIME, 
	error TEXT, 
	is_public BOOLEAN NOT NULL, 
	size_bytes BIGINT NOT NULL, 
	template VARCHAR NOT NULL, 
	template_hash VARCHAR NOT NULL, 
	memory_mb INTEGER NOT NULL, 
	cpu_count INTEGER NOT NULL, 
	disk_mb INTEGER NOT NULL, 
	layers JSON NOT NULL, 
	environment JSON NOT NULL, 
	metadata JSON NOT NULL, 
	workdir VARCHAR, 
	network_enabled BOOLEAN NOT NULL, 
	generation INTEGER NOT NULL, 
	patch_source VARCHAR, 
	patch_position INTEGER NOT NULL, 
	memory_id VARCHAR, 
	memory_image_version VARCHAR, 
	memory_guest_token VARCHAR, 
	patches_ever INTEGER DEFAULT 0 NOT NULL, secret_stores JSON DEFAULT '[]' NOT NULL, egress_allowlist JSON DEFAULT '[]' NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_snapshots_name UNIQUE (sandbox_id, unique_name), 
	FOREIGN KEY(org_id) REFERENCES organisations (id)
);
INSERT INTO "snapshots" VALUES('68e83f5e-18e4-4360-8c37-1ffdd18eb4f4','f518c1e1-1f5b-4c67-9395-971713428c6f','sb-7d12a2ee','checkpoint','disk_only','ready','before','before','2026-11-30 16:19:53.686882','2026-11-30 16:19:53.902482',NULL,NULL,0,10240,'base','h1',4096,1,20480,'["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654", "52abed62482df20702c17f5c4f60492851fd3a0534a6cb962874a0f177732376"]','{}','{}',NULL,1,0,NULL,0,NULL,NULL,NULL,1,'["vault"]','[]');
INSERT INTO "snapshots" VALUES('7c6a4fb1-5d21-428b-be3c-2707ffe460cc','f518c1e1-1f5b-4c67-9395-971713428c6f','sb-7d12a2ee','checkpoint','full','ready','full','full','2026-11-30 16:19:53.943590','2026-11-30 16:19:54.104331',NULL,NULL,0,10270,'base','h1',4096,1,20480,'["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654", "9bd6e4335fd86d41ee837dafded8c0f802daeaa1c88a5d13f1324f41ee7ec385"]','{}','{}',NULL,1,0,NULL,0,'9cf49a8a7a2c32c6ca747bf245fe6c49c8f655e2b02ddf095cebcac6a20839bf','fake-1-75a7d8388002','49f44036d6e1d05aeeafd6c1a710a8f30ee35fef80c934abdf4e6c7ad4423c83',0,'["vault"]','[]');
INSERT INTO "snapshots" VALUES('95b5ad8a-8bdd-46e2-b782-c41fc920186b','f518c1e1-1f5b-4c67-9395-971713428c6f','sb-b2448cdb','hibernation','full','ready','',NULL,'2026-11-30 16:19:54.188709','2026-11-30 16:19:54.272745',NULL,NULL,0,10270,'base','h1',4096,1,20480,'["816fb75c5a5578780bc32849964c067f3d5329262bdc098088de9cf34019e654", "4d00c6b8bd291937778115bfe0608e6d34a7eb9804f7920b2555b8eb888d22a8"]','{}','{"is": "asleep"}',NULL,1,0,NULL,0,'9cf49a8a7a2c32c6ca747bf245fe6c49c8f655e2b02ddf095cebcac6a20839bf','fake-1-75a7d8388002','9604f7afcdd4fa7dff53702213f04ca7edf6258a328741072ceeddb90fc6dd86',0,'[]','[]');
CREATE TABLE turns (
	id VARCHAR NOT NULL, 
	session_id VARCHAR NOT NULL, 
	ordinal INTEGER NOT NULL, 
	state VARCHAR NOT NULL, 
	attempt INTEGER NOT NULL, 
	input_from_seq BIGINT NOT NULL, 
	input_to_seq BIGINT NOT NULL, 
	created_at DATETIME NOT NULL, 
	claimed_at DATETIME, 
	started_at DATETIME, 
	deadline_at DATETIME, 
	cancel_requested_at DATETIME, 
	completed_at DATETIME, 
	yield_reason VARCHAR, 
	result_event_id VARCHAR, 
	active_ms BIGINT NOT NULL, 
	usage JSON, 
	error JSON, 
	checkpoint VARCHAR, 
	state_kept BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT uq_turns_ordinal UNIQUE (session_id, ordinal), 
	FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "turns" VALUES('trn_27ef6112dbcf3572fec641a2','ses_d25b363219a8b84e369f8923',1,'error',3,1,1,'2026-11-30 16:19:54.931412','2026-11-30 16:19:55.031387','2026-11-30 16:19:55.704326','2026-11-30 16:49:55.704326',NULL,'2026-11-30 16:20:02.835836','error',NULL,7804,NULL,'{"code": "brain_crashed", "message": "The connection to the agent''s engine broke off.", "retriable": false}',NULL,1);
CREATE INDEX ix_api_keys_org_id ON api_keys (org_id);
CREATE INDEX ix_sandboxes_state ON sandboxes (state);
CREATE INDEX ix_sandboxes_org_newest ON sandboxes (org_id, created_at, id);
CREATE INDEX ix_sandboxes_from_checkpoint ON sandboxes (from_checkpoint);
CREATE INDEX ix_sandboxes_patch_source ON sandboxes (patch_source);
CREATE INDEX ix_sandboxes_due ON sandboxes (state, due_at);
CREATE INDEX ix_snapshots_state ON snapshots (state);
CREATE INDEX ix_preview_grants_port ON preview_grants (sandbox_id, port);
CREATE INDEX ix_held_stores_store_id ON held_stores (store_id);
CREATE INDEX ix_seals_secret_id ON seals (secret_id);
CREATE INDEX ix_egress_events_at ON egress_events (at);
CREATE INDEX egress_events_of_sandbox ON egress_events (sandbox_id, position);
CREATE INDEX ix_sessions_brain ON sessions (brain);
CREATE INDEX ix_sessions_hands ON sessions (hands);
CREATE INDEX sessions_of_org ON sessions (org_id, created_at, id);
CREATE INDEX sessions_to_run ON sessions (status, lease_until);
CREATE INDEX sessions_awake ON sessions (awake, active_at);
CREATE INDEX events_of_turn ON events (session_id, turn_id, seq);
CREATE INDEX ix_destinations_session_id ON destinations (session_id);
CREATE INDEX deliveries_of_session ON deliveries (session_id, event_seq, id);
CREATE INDEX deliveries_due ON deliveries (due_at);
CREATE INDEX ix_agents_credential ON agents (credential);
CREATE INDEX ix_agents_org_newest ON agents (org_id, created_at, id);
CREATE INDEX ix_model_credentials_org_id ON model_credentials (org_id);
DELETE FROM "sqlite_sequence";
COMMIT;
