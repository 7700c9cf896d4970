"""Store: durable facts. So far the receipts; ledger, grants, approvals and audit join them."""
